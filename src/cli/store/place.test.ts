import { describe, expect, it } from 'vitest';
import { checkSource, isSame, parsePlace } from './place.ts';

describe('parsePlace', () => {
  it('is a folder, or a Redis server with a prefix', () => {
    expect(parsePlace('backup', '/data')).toEqual({ dataDir: `${process.cwd()}/backup` });
    expect(parsePlace('redis://127.0.0.1:6379/2?prefix=team', '/data')).toEqual({
      dataDir: '/data',
      redis: { url: 'redis://127.0.0.1:6379/2', prefix: 'team' },
    });
  });

  it.each(['ftp://host/x', 'redis://:s3cret@ho st', 'redis://host/?prefx=team'])('refuses %s', (text) => {
    expect(() => parsePlace(text, '/data')).toThrow(/storage|Redis/);
    expect(() => parsePlace(text, '/data')).not.toThrow('s3cret');
  });
});

describe('isSame', () => {
  const place = (text: string) => parsePlace(text, '/data');

  it('sees through spellings', () => {
    expect(isSame(place('/a/../b'), place('/b'))).toBe(true);
    expect(isSame(place('redis://user:x@host:1'), place('redis://host:1/0?prefix=cella'))).toBe(true);
    expect(isSame(place('redis://host:1'), place('redis://host:1/?prefix=team'))).toBe(false);
    expect(isSame(place('redis://host:1'), place('/data'))).toBe(false);
  });
});

it('a folder that is not there is no source', () => {
  expect(() => checkSource({ dataDir: '/nowhere/at/all' })).toThrow('There is no folder');
});
