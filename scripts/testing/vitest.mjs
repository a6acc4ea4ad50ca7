/** Runs vitest for the scripts: its program, its arguments, and a scratch folder for the tests. */

import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { atEnd } from './host.mjs';

export const root = fileURLToPath(new URL('../..', import.meta.url));
export const python = process.env.CELLA_PYTHON ?? '/usr/bin/python3';
const ownNode = join(root, 'node_modules', '.bin', 'node');
export const node = existsSync(ownNode) ? ownNode : process.execPath;

/** Arguments of Node. `report` gets the results as JSON. */
export function vitestArguments(checkout, project, report, filters) {
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`];
  const options = ['--configLoader', 'native', '--project', project, '--passWithNoTests', ...reporters];
  return [join(checkout, 'node_modules', 'vitest', 'vitest.mjs'), 'run', ...options, ...filters];
}

/** Removed at the end. Other users can reach its folder for temporary files. */
export function makeScratch(name) {
  const scratch = mkdtempSync(join(tmpdir(), `cella-${name}-`));
  atEnd(() => rmSync(scratch, { recursive: true, force: true }));
  chmodSync(scratch, 0o711);
  makeTemporary(scratch);
  return scratch;
}

export function makeTemporary(scratch) {
  const temporary = join(scratch, 'tmp');
  mkdirSync(temporary);
  chmodSync(temporary, 0o1777);
  return temporary;
}

/** Variables that make the tests write only into the scratch folder. */
export function scratchVariables(scratch) {
  return {
    CELLA_PYTHON: python,
    TMPDIR: join(scratch, 'tmp'),
    CELLA_DATA_DIR: join(scratch, 'data'),
    // Caches the compiled sources of hosts that tests start.
    NODE_COMPILE_CACHE: join(scratch, 'compiled'),
  };
}

/** The variables of this process, with the Node of the tests first on PATH. */
export function ownVariables(scratch) {
  const path = [dirname(node), process.env.PATH].join(delimiter);
  return { ...process.env, PATH: path, ...scratchVariables(scratch) };
}
