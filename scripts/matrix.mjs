/**
 * `npm run test:matrix`: the nine features of deps on every executor with every storage, each cell a test of its own, and
 * the table of them. The last line is `54 passed, 0 failed`; a cell that did not run has failed.
 */

import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { features } from '../test/matrix/features.ts';
import { atEnd, run } from './testing/commands.mjs';
import { requireAll } from './testing/requirements.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const python = process.env.CELLA_PYTHON ?? '/usr/bin/python3';
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
  const scratch = mkdtempSync(join(tmpdir(), 'cella-matrix-'));
  atEnd(() => rmSync(scratch, { recursive: true, force: true }));
  chmodSync(scratch, 0o711);
  mkdirSync(join(scratch, 'tmp'));
  chmodSync(join(scratch, 'tmp'), 0o1777);
  const report = join(scratch, 'matrix.json');
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`];
  const vitest = join(root, 'node_modules', 'vitest', 'vitest.mjs');
  const args = [vitest, 'run', '--configLoader', 'native', '--project', 'system', ...reporters, 'test/matrix'];
  const path = [dirname(process.execPath), process.env.PATH].join(delimiter);
  const folders = { TMPDIR: join(scratch, 'tmp'), CELLA_DATA_DIR: join(scratch, 'data') };
  const env = { ...process.env, PATH: path, CELLA_PYTHON: python, ...folders };
  const exitCode = await run(process.execPath, args, { cwd: root, env });
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
