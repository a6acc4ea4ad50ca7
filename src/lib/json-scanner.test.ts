import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isCheapToParse, JsonScanner, type ScanLimits } from './json-scanner.ts';

const WIDE: ScanLimits = { mostDeep: 100, mostKeys: 1000 };

/** In two pieces, wherever they are cut. */
function scanned(text: string, cut = 0, limits = WIDE): JsonScanner | undefined {
  const scan = new JsonScanner(limits);
  const bytes = Buffer.from(text);
  const at = cut % (bytes.length + 1);
  return scan.push(bytes.subarray(0, at)) && scan.push(bytes.subarray(at)) && scan.end() ? scan : undefined;
}

function parses(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

const json = fc
  .tuple(fc.jsonValue({ stringUnit: 'grapheme' }), fc.nat(2))
  .map(([value, indent]) => JSON.stringify(value, null, indent));
/** JSON with something put in the place of a piece of it. */
const damaged = fc
  .tuple(
    json,
    fc.nat(),
    fc.nat(3),
    fc.array(fc.constantFrom(...'{}[]",:\\u0019-+.eEtrufalsn \n\u0001'), { maxLength: 4 }),
  )
  .map(([text, at, gone, put]) => {
    const from = at % (text.length + 1);
    return text.slice(0, from) + put.join('') + text.slice(from + gone);
  })
  .filter((text) => text.isWellFormed());

describe('JsonScan', () => {
  it('accepts exactly what JSON.parse accepts, in any pieces', () => {
    const same = (text: string, cut: number): void => {
      expect(scanned(text, cut) !== undefined, text).toBe(parses(text));
    };
    fc.assert(fc.property(json, fc.nat(), same), { numRuns: 300 });
    fc.assert(fc.property(damaged, fc.nat(), same), { numRuns: 3000 });
    for (const text of [
      '',
      ' ',
      '0',
      '-',
      '-0',
      '01',
      '1.',
      '1.5e+3',
      '1e',
      '{"a":1,}',
      '[1,]',
      '[,]',
      '{}{}',
      '"\\x"',
    ])
      same(text, 1);
  });

  it('reports where the keys and values of the outermost object are', () => {
    const text = ' {"a" : 12 ,"\\u0061":{"b":[{"c":"}"}]}, "e":"f\\\\", "é\\"x":-1e5}';
    const slice = ([from, to]: readonly [number, number]) => Buffer.from(text).toString('utf8', from, to);
    for (let cut = 0; cut < text.length; cut++) {
      const members = scanned(text, cut)?.members ?? [];
      expect(members.map(({ key }) => slice(key))).toEqual(['"a"', '"\\u0061"', '"e"', '"é\\"x"']);
      expect(members.map(({ value }) => slice(value))).toEqual(['12', '{"b":[{"c":"}"}]}', '"f\\\\"', '-1e5']);
    }
    expect(scanned('[{"a":1}]')?.members).toEqual([]);
  });

  it('refuses input that is too deep, has too many keys, or is too expensive to parse', () => {
    expect(scanned('[[[]]]', 0, { ...WIDE, mostDeep: 3 })).toBeDefined();
    expect(scanned('[[[{}]]]', 0, { ...WIDE, mostDeep: 3 })).toBeUndefined();
    expect(scanned('{"a":{"b":1,"c":2}}', 0, { ...WIDE, mostKeys: 1 })).toBeDefined();
    expect(scanned('{"a":1,"b":2}', 0, { ...WIDE, mostKeys: 1 })).toBeUndefined();
    expect(scanned('{"a":[1,true]}', 0, { ...WIDE, mostEffort: 32 })).toBeDefined();
    expect(scanned('{"a":[1,true,""]}', 0, { ...WIDE, mostEffort: 32 })).toBeUndefined();
  });
});

describe('isCheapToParse', () => {
  const many = `[${'[],'.repeat(50_000)}[]]`;

  it.each([
    ['a list of many', many],
    ['the same with blanks before it', ` \t\r\n${many}`],
    // Decoders take it away.
    ['the same behind a mark of the byte order', `\ufeff${many}`],
    ['what is too deep', '['.repeat(70_000)],
    ['the same behind a mark of the byte order', `\ufeff${'['.repeat(70_000)}`],
  ])('refuses %s', (_name, text) => {
    expect(isCheapToParse(text, 100_000)).toBe(false);
    expect(isCheapToParse(Buffer.from(text), 100_000)).toBe(false);
  });
});
