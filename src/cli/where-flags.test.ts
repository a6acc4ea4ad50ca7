import { describe, expect, it } from 'vitest';
import { typedFlags } from './typed-flags.ts';
import { whereOf, whereRetyped } from './where-flags.ts';

const defaults = { dataDir: '/data' };
const url = 'https://cella.example';

describe('whereOf', () => {
  it('takes the server of a flag, or of a variable, with the token for it', () => {
    expect(whereOf({}, defaults)).toEqual({ dataDir: '/data' });
    expect(whereOf({ url, tokenFile: 'token' }, { ...defaults, serverToken: 'other' })).toEqual({
      dataDir: '/data',
      server: { url, tokenFile: 'token' },
    });
    const environment = { ...defaults, serverUrl: url, serverToken: 'secret', storage: 'redis' };
    expect(whereOf({}, environment)).toMatchObject({ server: { url, token: 'secret' } });
  });

  it('takes a storage that is named by hand for what is meant, whatever variables say', () => {
    const environment = { ...defaults, serverUrl: url };
    expect(whereOf({ data: '/mine' }, environment)).toEqual({ dataDir: '/mine' });
    expect(whereOf({ redis: 'redis://host' }, environment)).toMatchObject({ redis: { url: 'redis://host' } });
  });

  it('refuses what contradicts itself', () => {
    expect(() => whereOf({ url, data: '/mine' }, defaults)).toThrow('--data means nothing to the server');
    expect(() => whereOf({ url, prefix: 'x' }, defaults)).toThrow('--prefix means nothing to the server');
    expect(() => whereOf({ tokenFile: 'x' }, defaults)).toThrow('--token-file means nothing without --url');
  });

  it('can be typed again', () => {
    expect(whereRetyped({ url, tokenFile: 'my token' })).toBe(` --url ${url} --token-file 'my token'`);
    expect(whereRetyped({ data: 'here' })).toBe(' --data here');
  });
});

describe('typedFlags', () => {
  it('are those that were typed, and not what has a default', () => {
    expect(typedFlags({ runtimeDeps: true })).toEqual([]);
    expect(typedFlags({ cwd: '/x', memory: 64, index: false, runtimeDeps: false })).toEqual([
      ...['--cwd', '--memory', '--no-index', '--no-runtime-deps'],
    ]);
    expect(typedFlags({ index: 'https://index.example', wheels: ['x'] })).toEqual(['--wheels', '--index']);
  });
});
