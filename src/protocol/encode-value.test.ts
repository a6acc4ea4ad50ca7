import { execFileSync } from 'node:child_process';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { encodeValue } from './encode-value.ts';
import type { PyValue } from './py-values.ts';
import { decodeValue } from './values.ts';

const python = process.env.CELLA_PYTHON ?? '/usr/bin/python3';

/** What the real Python reads. */
function readByPython(values: readonly PyValue[]): string[] {
  const program =
    'import json, marshal, sys\nfor line in json.load(sys.stdin): print(ascii(marshal.loads(bytes.fromhex(line))))';
  const hex = values.map((value) => encodeValue(value).toString('hex'));
  return execFileSync(python, ['-I', '-c', program], { input: JSON.stringify(hex) })
    .toString()
    .trimEnd()
    .split('\n');
}

describe('values for a kernel', () => {
  it('are read by Python as what they are here', () => {
    const values: [PyValue, string][] = [
      [null, 'None'],
      [true, 'True'],
      [0, '0'],
      [-1, '-1'],
      [2 ** 31, '2147483648'],
      [-(2 ** 31) - 1, '-2147483649'],
      [2n ** 100n, (2n ** 100n).toString()],
      [-(2n ** 15n), '-32768'],
      [0n, '0'],
      [0.5, '0.5'],
      [-0, '-0.0'],
      [Number.POSITIVE_INFINITY, 'inf'],
      ['ä "quoted" \ud800', '\'\\xe4 "quoted" \\ud800\''],
      [new Uint8Array([0, 255]), "b'\\x00\\xff'"],
      [[1, ['x'], {}], "[1, ['x'], {}]"],
      [JSON.parse('{"__proto__": 1, "a": null}'), "{'__proto__': 1, 'a': None}"],
    ];
    expect(readByPython(values.map(([value]) => value))).toEqual(values.map(([, text]) => text));
  });

  it('come back as they were, whatever they are', () => {
    const anything = fc.letrec<{ value: PyValue }>((tie) => ({
      value: fc.oneof(
        { depthSize: 'small' },
        fc.constant(null),
        fc.boolean(),
        fc.double(),
        fc.integer(),
        fc.bigInt().filter((value) => value > 2n ** 53n || value < -(2n ** 53n)),
        fc.string({ unit: 'binary' }),
        fc.uint8Array({ maxLength: 20 }),
        fc.array(tie('value'), { maxLength: 5 }),
        fc.dictionary(fc.string(), tie('value'), { maxKeys: 5 }),
      ),
    })).value;
    fc.assert(
      fc.property(anything, (value) => {
        expect(decodeValue(encodeValue(value))).toEqual(value);
      }),
    );
  });

  it('are the same where they are long: texts in pieces, surrogates and pairs at every place', () => {
    const texts = ['\ud800', '\udc80', 'a', '\u00e9', '\u20ac', '\ud83d\ude00', 'a\ud83d\ude00', '\ud83d\ud83d\ude00'];
    for (const text of texts) {
      const long = `${text.repeat(40_000)}${text}`;
      const value = { [long.slice(0, 40_001)]: [long, long.length], end: true };
      expect(decodeValue(encodeValue(value))).toEqual(value);
    }
  });
});
