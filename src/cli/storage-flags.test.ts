import { describe, expect, it } from 'vitest';
import { placeToText, retyped, storagePlaceOf } from './storage-flags.ts';

const defaults = { dataDir: '/data' };
const url = 'redis://127.0.0.1:6379';

describe('storagePlaceOf', () => {
  it('is the data folder where nothing is said', () => {
    expect(storagePlaceOf({}, defaults)).toEqual({ dataDir: '/data' });
    expect(storagePlaceOf({ data: '/mine' }, defaults)).toEqual({ dataDir: '/mine' });
  });

  it('is Redis where its address is a flag, or where it is chosen', () => {
    expect(storagePlaceOf({ redis: url }, defaults)).toEqual({ dataDir: '/data', redis: { url } });
    const environment = { ...defaults, storage: 'redis', redis: url, prefix: 'team' };
    expect(storagePlaceOf({}, environment)).toEqual({ dataDir: '/data', redis: { url, prefix: 'team' } });
    const flags = { storage: 'redis', prefix: 'mine' } as const;
    expect(storagePlaceOf(flags, environment)).toMatchObject({ redis: { url, prefix: 'mine' } });
  });

  it('lets --storage file win over the environment', () => {
    const environment = { ...defaults, storage: 'redis', redis: url, prefix: 'team' };
    expect(storagePlaceOf({ storage: 'file' }, environment)).toEqual({ dataDir: '/data' });
  });

  it('refuses what contradicts itself, and what is missing', () => {
    expect(() => storagePlaceOf({ storage: 'file', redis: url }, defaults)).toThrow('--redis means nothing to files');
    expect(() => storagePlaceOf({ prefix: 'x' }, defaults)).toThrow('--prefix means nothing to files');
    expect(() => storagePlaceOf({ storage: 'redis' }, defaults)).toThrow('needs the address');
    expect(() => storagePlaceOf({}, { ...defaults, storage: 'disk' })).toThrow('CELLA_STORAGE is "disk"');
  });
});

describe('what is shown of a storage', () => {
  it('never holds a password', () => {
    const secret = 'redis://ada:s3cret/@w@host:6379/2';
    expect(placeToText({ dataDir: '/', redis: { url: secret } })).not.toContain('s3cret');
    expect(retyped({ redis: 'rediss://:s3cret@host', data: 'my data' })).toBe(
      " --data 'my data' --redis 'rediss://:***@host'",
    );
  });
});
