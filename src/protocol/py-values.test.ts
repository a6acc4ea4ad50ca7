import { expect, test } from 'vitest';
import { PyObject, type PyValue, valueFromWire, valueToWire } from './py-values.ts';

const values: PyValue[] = [
  null,
  true,
  1.5,
  'a\ud800b',
  2n ** 70n,
  -(2n ** 70n),
  2n ** 40_000n - 1n,
  -(2n ** 40_000n) + 1n,
  Number.NaN,
  Number.POSITIVE_INFINITY,
  Number.NEGATIVE_INFINITY,
  -0,
  new Uint8Array([0, 255]),
  new PyObject('Thing', '<Thing>'),
  [1, [2n ** 64n]],
  { a: { b: [null] }, __proto__x: 1 },
  JSON.parse('{"__proto__": 1}'),
  { $int: 'not a number' },
  { $bytes: 1, $$x: 2 },
  { $object: { type: 'a', repr: 'b' } },
];

test('every value survives JSON, whatever its keys look like', () => {
  for (const value of values) {
    const back = valueFromWire(JSON.parse(JSON.stringify(valueToWire(value))));
    expect(back).toEqual(value);
    expect(Object.is(back, -0)).toBe(Object.is(value, -0));
  }
});

test('JSON values are unchanged', () => {
  expect(valueToWire({ a: [1, 'x', false, null] })).toEqual({ a: [1, 'x', false, null] });
});

test('other JSON is refused', () => {
  for (const bad of [
    { $int: '1.5' },
    { $int: '0x' },
    { $int: '9'.repeat(10_001) },
    { $int: 1 },
    { $float: 'x' },
    { $bytes: '%' },
    { $other: 1 },
    undefined,
  ]) {
    expect(() => valueFromWire(bad), JSON.stringify(bad)).toThrow();
  }
});

test('a number of millions of digits is converted quickly in both directions', () => {
  const huge = 2n ** 100_000_000n - 1n;
  const wire = valueToWire([huge, -huge]);
  expect(JSON.stringify(wire).length).toBeLessThan(51_000_000);
  // Decimal digits take minutes for this.
  const [back, negative] = valueFromWire(wire) as [bigint, bigint];
  expect(back === huge && negative === -huge).toBe(true);
});
