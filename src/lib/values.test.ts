import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, test } from 'vitest';
import { SchemaValidator } from '../namespaces/tools/schema-validator.ts';
import { readToolJson } from '../namespaces/tools/tool-output.ts';
import { decodeValue, encodeValue } from '../protocol/kernel-marshal.ts';
import { type PyValue, valueFromWire, valueToJson, valueToWire } from '../protocol/py-values.ts';
import { parseOwnJson } from './own-json.ts';
import { setEntry } from './values.ts';

test('entries are set in any order, again, and with any name', () => {
  const names = ['b', '__proto__', '900', '7', '01', '1023', '99999', '7', 'b', 'constructor', '-1', ''];
  const dict: Record<string, number> = {};
  for (const [value, name] of names.entries()) setEntry(dict, name, value);
  expect(JSON.parse(JSON.stringify(dict))).toEqual(
    JSON.parse('{"7":7,"900":2,"1023":5,"99999":6,"b":8,"__proto__":1,"01":4,"constructor":9,"-1":10,"":11}'),
  );
  expect(Object.getPrototypeOf(dict)).toBe(Object.prototype);
});

describe('a dict whose only key is a number takes little memory', () => {
  setFlagsFromString('--expose-gc');
  const collectGarbage: () => void = runInNewContext('gc');
  const COUNT = 5000;
  const text = `[${Array(COUNT).fill('{"1023":0}')}]`;
  const parsed: PyValue[] = JSON.parse(text);
  const bytes = encodeValue(parsed);
  const schema = { enum: parsed };

  test.each<[string, () => unknown]>([
    ['from a kernel', () => decodeValue(bytes)],
    ['to a client', () => valueToWire(parsed)],
    ['from a client', () => valueFromWire(parsed)],
    ['for a program', () => valueToJson(parsed)],
    ['from a tool', () => readToolJson(text)],
    ['from a file', () => parseOwnJson(Buffer.from(text), 0)],
    ['in a schema', () => new SchemaValidator().getValidator(schema)(null) && schema.enum],
  ])('%s', async (_name, make) => {
    collectGarbage();
    const before = process.memoryUsage().heapUsed;
    const made = await make();
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(COUNT * 2000);
    expect(JSON.stringify(made)).toBe(text);
  });
});
