/** Compares what the code produces now with a file in test/golden/expected. */

import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';

const HINT = `This changed. If on purpose, run "npm run golden" and commit the golden file with the change, with the reason`;

/** What is shorter holds nothing: what was to be compared was not found. */
const SHORTEST = 50;

/** `name` ends in .txt for text, in .json for anything else. */
export async function expectGolden(name: string, value: unknown): Promise<void> {
  const text = typeof value === 'string' ? value : `${JSON.stringify(sorted(value), undefined, 2)}\n`;
  if (text.length < SHORTEST) throw new Error(`there is nothing to compare with ${name}: ${text}`);
  const file = fileURLToPath(new URL(`expected/${name}`, import.meta.url));
  await expect(text, `${HINT}: test/golden/expected/${name}`).toMatchFileSnapshot(file);
}

/** Objects with their keys in order; arrays as they are. */
export function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (!isObject(value)) return value;
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(entries.map(([key, item]) => [key, sorted(item)]));
}

/** Keys and types of a JSON value. An array is one shape for all its items; a key that some items lack ends in `?`. */
export function shapeOf(value: unknown): unknown {
  if (value === null) return 'null';
  if (Array.isArray(value)) return value.length === 0 ? [] : [value.map(shapeOf).reduce(merged)];
  if (!isObject(value)) return typeof value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, shapeOf(item)]));
}

function merged(one: unknown, other: unknown): unknown {
  if (JSON.stringify(sorted(one)) === JSON.stringify(sorted(other))) return one;
  if (Array.isArray(one) && Array.isArray(other)) {
    const items = [...one, ...other];
    return items.length === 0 ? [] : [items.reduce(merged)];
  }
  if (isObject(one) && isObject(other)) return mergedKeys(one, other);
  const all = [one, other].flatMap((shape) =>
    typeof shape === 'string' ? shape.split(' | ') : [JSON.stringify(shape)],
  );
  return [...new Set(all)].sort().join(' | ');
}

function mergedKeys(one: Record<string, unknown>, other: Record<string, unknown>): Record<string, unknown> {
  const names = new Set([...Object.keys(one), ...Object.keys(other)].map((key) => key.replace(/\?$/, '')));
  const pairs = [...names].map((name): [string, unknown] => {
    const found = [one, other].flatMap((shape) =>
      [name, `${name}?`].filter((key) => key in shape).map((key) => shape[key]),
    );
    const isAlways = name in one && name in other;
    return [isAlways ? name : `${name}?`, found.reduce(merged)];
  });
  return Object.fromEntries(pairs);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
