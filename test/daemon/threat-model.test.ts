/** docs/threat-model.md names a test for each promise: each file is there, and holds the test by that name. */

import { existsSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';

const ROOT = new URL('../../', import.meta.url);
const page = readFileSync(new URL('docs/threat-model.md', ROOT), 'utf8');
const promises = page.slice(page.indexOf('## Promises'), page.indexOf('## Not promised'));

/** `file`: “name”; “another name” */
const named = [...promises.matchAll(/`((?:test|src)\/[^`]+)`: (“[^”]+”(?:; “[^”]+”)*)/g)].flatMap(
  ([, file = '', names = '']) => [...names.matchAll(/“([^”]+)”/g)].map(([, name = '']) => [file, name] as const),
);

it('each row of the promises names a test', () => {
  const rows = promises.split('\n').filter((line) => line.startsWith('| ') && !line.startsWith('| promise'));
  expect(rows.length).toBeGreaterThan(20);
  for (const row of rows) expect.soft(row).toMatch(/`(test|src)\/[^`]+`: “/);
});

it.each(named)('%s has “%s”', (file, name) => {
  const path = new URL(file, ROOT);
  expect(existsSync(path)).toBe(true);
  expect(readFileSync(path, 'utf8')).toContain(name);
});
