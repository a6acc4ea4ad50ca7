import { describe, expect, it } from 'vitest';
import { isSameStorage } from '../protocol/server-info.ts';
import { resolveStorage } from '../settings/process-config.ts';
import { explicitFlags } from './session-flags.ts';
import {
  checkSourceFolder,
  describeTarget,
  formatStorageFlags,
  formatStorageUrl,
  formatTargetFlags,
  parseStorageUrl,
  resolveTarget,
} from './target-options.ts';

const defaults = { dataDir: '/data' };
const url = 'https://cella.example';

describe('whereOf', () => {
  it('uses the server of a flag or a variable, with its token', () => {
    expect(resolveTarget({}, defaults)).toEqual({ dataDir: '/data' });
    expect(resolveTarget({ url, tokenFile: 'token' }, { ...defaults, serverToken: 'other' })).toEqual({
      dataDir: '/data',
      server: { url, tokenFile: 'token' },
    });
    const environment = { ...defaults, serverUrl: url, serverToken: 'secret', storage: 'redis' };
    expect(resolveTarget({}, environment)).toMatchObject({ server: { url, token: 'secret' } });
  });

  it('prefers a storage that is named by flags, whatever variables say', () => {
    const environment = { ...defaults, serverUrl: url };
    expect(resolveTarget({ data: '/mine' }, environment)).toEqual({ dataDir: '/mine' });
    expect(resolveTarget({ redis: 'redis://host' }, environment)).toMatchObject({ redis: { url: 'redis://host' } });
  });

  it('refuses what contradicts itself', () => {
    expect(() => resolveTarget({ url, data: '/mine' }, defaults)).toThrow('--data cannot be used with --url');
    expect(() => resolveTarget({ url, prefix: 'x' }, defaults)).toThrow('--prefix cannot be used with --url');
    expect(() => resolveTarget({ tokenFile: 'x' }, defaults)).toThrow('--token-file needs --url');
  });

  it('can be used as flags again', () => {
    expect(formatTargetFlags({ url, tokenFile: 'my token' })).toBe(` --url ${url} --token-file 'my token'`);
    expect(formatTargetFlags({ data: 'here' })).toBe(' --data here');
  });
});

describe('typedFlags', () => {
  it('are only the given flags, without defaults', () => {
    expect(explicitFlags({ runtimeDeps: true })).toEqual([]);
    expect(explicitFlags({ cwd: '/x', memory: 64, index: false, runtimeDeps: false })).toEqual([
      ...['--cwd', '--memory', '--no-index', '--no-runtime-deps'],
    ]);
    expect(explicitFlags({ index: 'https://index.example', wheels: ['x'] })).toEqual(['--wheels', '--index']);
  });
});

const redisUrl = 'redis://127.0.0.1:6379';

describe('storagePlaceOf', () => {
  it('is the data folder by default', () => {
    expect(resolveStorage({}, defaults)).toEqual({ dataDir: '/data' });
    expect(resolveStorage({ data: '/mine' }, defaults)).toEqual({ dataDir: '/mine' });
  });

  it('is Redis if its address is a flag, or if it is chosen', () => {
    expect(resolveStorage({ redis: redisUrl }, defaults)).toEqual({ dataDir: '/data', redis: { url: redisUrl } });
    const environment = { ...defaults, storage: 'redis', redis: redisUrl, prefix: 'team' };
    expect(resolveStorage({}, environment)).toEqual({ dataDir: '/data', redis: { url: redisUrl, prefix: 'team' } });
    const flags = { storage: 'redis', prefix: 'mine' } as const;
    expect(resolveStorage(flags, environment)).toMatchObject({ redis: { url: redisUrl, prefix: 'mine' } });
  });

  it('lets --storage file win over the environment', () => {
    const environment = { ...defaults, storage: 'redis', redis: redisUrl, prefix: 'team' };
    expect(resolveStorage({ storage: 'file' }, environment)).toEqual({ dataDir: '/data' });
  });

  it('refuses what contradicts itself, and what is missing', () => {
    expect(() => resolveStorage({ storage: 'file', redis: redisUrl }, defaults)).toThrow(
      '--redis has no effect on file storage',
    );
    expect(() => resolveStorage({ prefix: 'x' }, defaults)).toThrow('--prefix has no effect on file storage');
    expect(() => resolveStorage({ storage: 'redis' }, defaults)).toThrow('needs the address');
    expect(() => resolveStorage({}, { ...defaults, storage: 'disk' })).toThrow('CELLA_STORAGE is "disk"');
  });
});

describe('the description of a storage', () => {
  it('never contains a password', () => {
    const secret = 'redis://ada:s3cret/@w@host:6379/2';
    expect(describeTarget({ dataDir: '/', redis: { url: secret } })).not.toContain('s3cret');
    expect(formatStorageFlags({ redis: 'rediss://:s3cret@host', data: 'my data' })).toBe(
      " --data 'my data' --redis 'rediss://:***@host'",
    );
  });
});

describe('parsePlace', () => {
  it('is a folder, or a Redis server with a prefix', () => {
    expect(parseStorageUrl('backup', '/data')).toEqual({ dataDir: `${process.cwd()}/backup` });
    expect(parseStorageUrl('redis://127.0.0.1:6379/2?prefix=team', '/data')).toEqual({
      dataDir: '/data',
      redis: { url: 'redis://127.0.0.1:6379/2', prefix: 'team' },
    });
  });

  it.each([
    'ftp://host/x',
    'redis://:s3cret@ho st',
    'redis://host/?prefx=team',
    'redis://:s3cret@host',
    'rediss://s3cret@host:1/?prefix=team',
  ])('refuses %s', (text) => {
    expect(() => parseStorageUrl(text, '/data')).toThrow(/storage|Redis|password/);
    expect(() => parseStorageUrl(text, '/data')).not.toThrow('s3cret');
  });
});

it.each(['/backup', 'redis://127.0.0.1:6379', 'redis://host:1/2?prefix=team', 'redis://host:1/?prefix=a:b'])(
  'the description of %s is valid input',
  (text) => {
    const target = parseStorageUrl(text, '/data');
    expect(parseStorageUrl(formatStorageUrl(target), '/data')).toEqual(target);
  },
);

it('the description of a target has its prefix and no password', () => {
  const target = { dataDir: '/data', redis: { url: 'redis://:s3cret@host:1', prefix: 'team' } };
  expect(formatStorageUrl(target)).toBe('redis://:***@host:1/?prefix=team');
});

describe('isSame', () => {
  const target = (text: string) => parseStorageUrl(text, '/data');

  it('recognizes different spellings', () => {
    expect(isSameStorage(target('/a/../b'), target('/b'))).toBe(true);
    expect(
      isSameStorage(
        { dataDir: '/data', redis: { url: 'redis://user:x@host:1' } },
        target('redis://host:1/0?prefix=cella'),
      ),
    ).toBe(true);
    expect(isSameStorage(target('redis://host:1'), target('redis://host:1/?prefix=team'))).toBe(false);
    expect(isSameStorage(target('redis://host:1'), target('/data'))).toBe(false);
  });
});

it('a missing folder is no source', () => {
  expect(() => checkSourceFolder({ dataDir: '/nowhere/at/all' })).toThrow('There is no folder');
});
