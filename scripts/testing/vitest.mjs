/** How the scripts run vitest: its program, its arguments, and a folder for what the tests write. */

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

/** Removed at the end. Other users can pass through it to its folder for temporary files. */
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

/** Variables that lead everything tests write into the scratch folder. */
export function scratchVariables(scratch) {
  return {
    CELLA_PYTHON: python,
    TMPDIR: join(scratch, 'tmp'),
    CELLA_DATA_DIR: join(scratch, 'data'),
    // Hosts that tests start from the sources are compiled once and not each time.
    NODE_COMPILE_CACHE: join(scratch, 'compiled'),
  };
}

/** Those of this process too, with the Node of the tests first on PATH. */
export function ownVariables(scratch) {
  const path = [dirname(node), process.env.PATH].join(delimiter);
  return { ...process.env, PATH: path, ...scratchVariables(scratch) };
}
