import fc from 'fast-check';
import { expect, it } from 'vitest';
import { parseOwnJson } from '../lib/own-json.ts';
import { JsonPieces, jsonBytes, jsonText, toWireInSlices } from './json-pieces.ts';
import { PyObject, type PyValue, valueToJson, valueToWire } from './py-values.ts';

const whole = (text: string | readonly Buffer[]) =>
  typeof text === 'string' ? text : Buffer.concat([...text]).toString();

it.each([
  ['a small value', { a: [1, null, 'é', true], b: {}, c: [], d: undefined }],
  [
    'a text with pairs and lone halves of surrogates where it is cut',
    `${'x'.repeat(65_535)}😀${'\ud83d'.repeat(100_000)}\udc80`,
  ],
  ['a text of control characters', '\u0001"\\\n'.repeat(100_000)],
  ['many items', Array.from({ length: 50_000 }, (_, n) => ({ name: `n${n}`, value: [n / 3, { deep: null }] }))],
  ['many keys', Object.fromEntries(Array.from({ length: 50_000 }, (_, n) => [`"${n}`, n]))],
  ['numbers past 2^53', valueToJson([2n ** 100n, 'x'.repeat(200_000), { a: -(2n ** 64n) }])],
  ['what has no JSON', { text: 'x'.repeat(200_000), left: undefined, list: [undefined, Number.NaN], at: new Date(0) }],
])('is what JSON.stringify gives: %s', async (_what, value) => {
  const text = await jsonText(value);
  expect(whole(text)).toBe(JSON.stringify(value));
  expect(jsonBytes(text)).toBe(Buffer.byteLength(JSON.stringify(value)));
  expect(await parseOwnJson(Buffer.from(whole(text)))).toEqual(JSON.parse(JSON.stringify(value)));
});

it.each<[string, PyValue]>([
  [
    'special values',
    [1n << 70n, -0, Number.NaN, new Uint8Array(200_000), new PyObject('t', 'r', 3), { $a: { $$b: 'x' } }],
  ],
  [
    'many keys, one of them __proto__',
    JSON.parse(`{"__proto__": [1], ${Array.from({ length: 50_000 }, (_, n) => `"${n}": ${n}`).join()}}`),
  ],
  ['a long text', 'é\udc80'.repeat(200_000)],
])('is what valueToWire gives: %s', async (_what, value) => {
  const wire = await toWireInSlices(value);
  expect(wire).toBeInstanceOf(JsonPieces);
  expect(whole(await jsonText({ before: 1, wire, after: [wire] }))).toBe(
    JSON.stringify({ before: 1, wire: valueToWire(value), after: [valueToWire(value)] }),
  );
  expect(JSON.stringify(wire)).toBe(JSON.stringify(valueToWire(value)));
});

it('writes a small value as valueToWire does', async () => {
  expect(await toWireInSlices({ $a: [1n << 70n] })).toEqual(valueToWire({ $a: [1n << 70n] }));
});

it('reads any JSON that is longer than one step', async () => {
  await fc.assert(
    fc.asyncProperty(fc.jsonValue({ maxDepth: 6, stringUnit: 'binary' }), async (value) => {
      // Some 40 places for the cuts of a long text.
      const long = {
        before: 'é😀"\\\ud83d'.repeat(100_000),
        value,
        list: [],
        object: {},
        empty: '',
        after: [[[value]]],
      };
      const text = JSON.stringify(long);
      expect(await parseOwnJson(Buffer.from(text))).toEqual(JSON.parse(text));
    }),
    { numRuns: 30 },
  );
});

it('reads a member called __proto__ as a member', async () => {
  const text = `{"__proto__":{"a":1},"long":"${'x'.repeat(200_000)}"}`;
  const value = await parseOwnJson(Buffer.from(text));
  expect(JSON.stringify(value)).toBe(text);
});
