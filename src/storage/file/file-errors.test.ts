import { describe, expect, it } from 'vitest';
import { CellaError } from '../../protocol/errors.ts';
import { storageFailed } from './file-errors.ts';

const system = (code: string) => Object.assign(new Error(`${code}: something`), { code });
const sqlite = (errcode: number) => Object.assign(new Error('database'), { code: 'ERR_SQLITE_ERROR', errcode });

describe('a failure of storage', () => {
  it.each([
    [system('ENOSPC'), 'Cannot write /data/x: the disk is full. Make room on it and try again (ENOSPC).'],
    [sqlite(13), 'Cannot write /data/x: the disk is full. Make room on it and try again (SQLITE_FULL).'],
    [system('EACCES'), 'Cannot write /data/x: this user may not. Give it the right, or use another folder (EACCES).'],
    [system('ELOOP'), 'Cannot write /data/x: ELOOP: something (ELOOP).'],
    ['odd', 'Cannot write /data/x: odd.'],
  ])('names the file, the reason and what to do: %s', (cause, message) => {
    const error = storageFailed('write', '/data/x', cause);
    expect(error).toMatchObject({ code: 'STORAGE_FAILED', message, cause, details: { path: '/data/x' } });
  });

  it('uses the primary part of SQLite’s extended codes', () => {
    expect(storageFailed('read', '/data/x', sqlite(11 | (2 << 8))).details.reason).toBe('SQLITE_CORRUPT');
    expect(storageFailed('read', '/data/x', sqlite(99)).message).toContain('SQLite 99');
  });

  it('is not converted twice', () => {
    const error = new CellaError('KEY_BUSY', 'busy');
    expect(storageFailed('read', '/data/x', error)).toBe(error);
  });
});
