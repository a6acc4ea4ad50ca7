/** Pages that name a test for each of their rows: each file is there, and holds the test by that name; each fault's is in `npm run test:faults`. */

import { existsSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { rows as attacks } from '../attack/rows.ts';

const ROOT = new URL('../../', import.meta.url);
const textOf = (path: string) => readFileSync(new URL(path, ROOT), 'utf8');

/** The part of a page between two of its headings. */
function between(path: string, from: string, to: string): string {
  const page = textOf(path);
  return page.slice(page.indexOf(`\n${from}\n`), page.indexOf(`\n${to}\n`));
}

/** Each `file` with each “name” between it and the next file of its row. */
const namedIn = (text: string) =>
  [...text.matchAll(/`((?:test|src)\/[^`]+)`:((?:(?!`(?:test|src)\/)[^|])*)/g)].flatMap(([, file = '', names = '']) =>
    [...names.matchAll(/“([^”]+)”/g)].map(([, name = '']) => [file, name] as const),
  );

/** The texts in it that can name a test: what a comment says names none. */
const stringsIn = (source: string) =>
  [...source.replaceAll(/^\s*(\/\/|\/?\*).*$/gm, '').matchAll(/'[^'\n]*'|"[^"\n]*"|`[^`\n]*`/g)].map(([text]) => text);

/** The names of attacks are whole, as the table has them; of other tests a part is enough. */
function expectTest(file: string, name: string): void {
  expect(existsSync(new URL(file, ROOT)), file).toBe(true);
  if (file.startsWith('test/attack/')) expect(attacks.map((row) => row.name)).toContain(name);
  else expect(stringsIn(textOf(file)).filter((text) => text.includes(name)).length, name).toBeGreaterThan(0);
}

const rowsOf = (text: string) =>
  text.split('\n').filter((line) => line.startsWith('| ') && !/^\| (promise|\| fault)/.test(line));

const promises = between('docs/threat-model.md', '## Promises', '## Not promised');
const faults = between('docs/internals/development.md', '## Faults', '## What is simulated');

describe.each([
  ['the promises of docs/threat-model.md', promises, 20],
  ['the faults of docs/internals/development.md', faults, 35],
])('%s', (_page, text, least) => {
  it('each row names a test', () => {
    const rows = rowsOf(text);
    expect(rows.length).toBeGreaterThan(least);
    for (const row of rows) expect.soft(row).toMatch(/`(test|src)\/[^`]+`: “/);
  });

  it.each(namedIn(text))('%s has “%s”', (file, name) => {
    expectTest(file, name);
  });
});

it('npm run test:faults runs each test that the faults name', () => {
  const [, , ...filters] = String(JSON.parse(textOf('package.json')).scripts['test:faults']).split(' ');
  for (const [file] of namedIn(faults)) {
    expect
      .soft(
        filters.some((filter) => file.includes(filter)),
        file,
      )
      .toBe(true);
  }
});
