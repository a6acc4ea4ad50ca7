import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { topLevelKeys } from './top-level-keys.ts';

const keysOf = (json: string): string[] => [...topLevelKeys(Buffer.from(json))];

describe('topLevelKeys', () => {
  it('gives keys as they are meant, each time they are written', () => {
    expect(keysOf('{"a":1,"\\u0061":{"b":[{"c":"d"}]}, "e" : "f\\\\", "é\\"x":0}')).toEqual(['a', 'a', 'e', 'é"x']);
    expect(keysOf('{"a":"b","c":["d"]}')).toEqual(['a', 'c']);
    expect(keysOf('[{"a":1}]')).toEqual([]);
    expect(keysOf('"a"')).toEqual([]);
    expect(keysOf('{}')).toEqual([]);
  });

  it('finds the keys of any object', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string({ unit: 'grapheme' }), fc.jsonValue()), fc.nat(2), (object, indent) => {
        expect(keysOf(JSON.stringify(object, null, indent)).toSorted()).toEqual(Object.keys(object).toSorted());
      }),
    );
  });
});
