/**
 * `npm run test:matrix`: tests the nine features of deps on every executor with every storage, one test per combination, and
 * prints a table. The last line is `54 passed, 0 failed`; a test that did not run counts as failed.
 */

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { features } from '../test/matrix/features.ts';
import { requireAll, run } from './testing/host.mjs';
import { makeScratch, node, ownVariables, python, root, vitestArguments } from './testing/vitest.mjs';

const executors = ['in-process', 'subprocess', 'container'];
const columns = executors.flatMap((executor) => ['file', 'redis'].map((storage) => `${executor} × ${storage}`));

/** The outcome of every test, by its column and its feature. */
function outcomes(report) {
  const found = new Map();
  if (!existsSync(report)) return found;
  const { testResults } = JSON.parse(readFileSync(report, 'utf8'));
  for (const { ancestorTitles, title, status } of testResults.flatMap(({ assertionResults }) => assertionResults)) {
    found.set(`${ancestorTitles[0]} ${title.split(' ')[0]}`, status);
  }
  return found;
}

function table(found) {
  const words = Object.entries(features).map(([name, about]) => `${name} ${about}`);
  const width = Math.max(...words.map((text) => text.length));
  const mark = (status) => (status === 'passed' ? '✓' : status === 'failed' ? '✗' : '–');
  const centre = (text, room) => text.padStart(Math.ceil((room + text.length) / 2)).padEnd(room);
  const line = (text, cells) => [text.padEnd(width), ...cells].join('  ').trimEnd();
  return [
    line('', columns),
    ...Object.keys(features).map((name, row) =>
      line(
        words[row] ?? '',
        columns.map((column) => centre(mark(found.get(`${column} ${name}`)), column.length)),
      ),
    ),
  ].join('\n');
}

async function main() {
  await requireAll(python);
  const scratch = makeScratch('matrix');
  const report = join(scratch, 'matrix.json');
  const args = vitestArguments(root, 'system', report, ['test/matrix']);
  const exitCode = await run(node, args, { cwd: root, env: ownVariables(scratch) });
  const found = outcomes(report);
  const cells = columns.flatMap((column) => Object.keys(features).map((name) => `${column} ${name}`));
  const passed = cells.filter((cell) => found.get(cell) === 'passed').length;
  console.log(`\n${table(found)}\n\n${passed} passed, ${cells.length - passed} failed`);
  return passed === cells.length && exitCode === 0 ? 0 : 1;
}

try {
  process.exitCode = await main();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  console.log('0 passed, 54 failed');
  process.exitCode = 1;
}
