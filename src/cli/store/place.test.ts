import { describe, expect, it } from 'vitest';
import { checkSource, isSame, parsePlace, toAddress } from './place.ts';

describe('parsePlace', () => {
  it('is a folder, or a Redis server with a prefix', () => {
    expect(parsePlace('backup', '/data')).toEqual({ dataDir: `${process.cwd()}/backup` });
    expect(parsePlace('redis://127.0.0.1:6379/2?prefix=team', '/data')).toEqual({
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
    expect(() => parsePlace(text, '/data')).toThrow(/storage|Redis|password/);
    expect(() => parsePlace(text, '/data')).not.toThrow('s3cret');
  });
});

it.each(['/backup', 'redis://127.0.0.1:6379', 'redis://host:1/2?prefix=team', 'redis://host:1/?prefix=a:b'])(
  'what is told of %s names it again',
  (text) => {
    const place = parsePlace(text, '/data');
    expect(parsePlace(toAddress(place), '/data')).toEqual(place);
  },
);

it('what is told of a place has its prefix and no password', () => {
  const place = { dataDir: '/data', redis: { url: 'redis://:s3cret@host:1', prefix: 'team' } };
  expect(toAddress(place)).toBe('redis://:***@host:1/?prefix=team');
});

describe('isSame', () => {
  const place = (text: string) => parsePlace(text, '/data');

  it('sees through spellings', () => {
    expect(isSame(place('/a/../b'), place('/b'))).toBe(true);
    expect(
      isSame({ dataDir: '/data', redis: { url: 'redis://user:x@host:1' } }, place('redis://host:1/0?prefix=cella')),
    ).toBe(true);
    expect(isSame(place('redis://host:1'), place('redis://host:1/?prefix=team'))).toBe(false);
    expect(isSame(place('redis://host:1'), place('/data'))).toBe(false);
  });
});

it('a folder that is not there is no source', () => {
  expect(() => checkSource({ dataDir: '/nowhere/at/all' })).toThrow('There is no folder');
});
