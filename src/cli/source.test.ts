import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterAll, describe, expect, it } from 'vitest';
import { readSource } from './source.ts';

const folder = mkdtempSync(join(tmpdir(), 'cella-source-'));
afterAll(() => rmSync(folder, { recursive: true }));
const nothing = Readable.from([]);

function file(name: string, bytes: string | Uint8Array): string {
  const path = join(folder, name);
  writeFileSync(path, bytes);
  return path;
}

describe('readSource', () => {
  it('reads a file, without its byte order mark', async () => {
    expect(await readSource({ kind: 'file', path: file('a.py', '\ufeffprint("é")\n') }, nothing)).toBe('print("é")\n');
  });

  it('reads all of stdin', async () => {
    const bytes = Buffer.from('print("é")');
    const stdin = Readable.from([bytes.subarray(0, 8), bytes.subarray(8)]);
    expect(await readSource({ kind: 'stdin' }, stdin)).toBe('print("é")');
  });

  it.each([
    ['missing.py', 'does not exist'],
    ['.', 'is a folder'],
    ['a.py/b.py', 'does not exist'],
  ])('says of %s that it %s', async (name, problem) => {
    file('a.py', '');
    await expect(readSource({ kind: 'file', path: join(folder, name) }, nothing)).rejects.toThrow(problem);
  });

  it('refuses what is not UTF-8', async () => {
    const path = file('latin.py', Uint8Array.of(0x22, 0xe9, 0x22));
    await expect(readSource({ kind: 'file', path }, nothing)).rejects.toThrow('is not UTF-8');
  });
});
