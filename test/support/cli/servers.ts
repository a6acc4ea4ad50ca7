/** Real servers for suites of the command line: started as a person would, and ended with the file. */

import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll } from 'vitest';
import { removeFolder } from '../../../src/environments/files/remove-tree.ts';
import { makeWheel } from '../packages/wheels.ts';
import { Cella, type Started } from './command.ts';

/** For files of the tests. */
export const folder = mkdtempSync(join(tmpdir(), 'cella-ways-'));
// Installers of a root host run as another user.
chmodSync(folder, 0o755);
const packages = { CELLA_WHEELS: join(folder, 'wheels'), CELLA_NO_INDEX: '1' };
for (const [name, value] of Object.entries(packages)) process.env[name] = value;

const all: Cella[] = [];
const servers: Started[] = [];

/** With a data folder of its own. */
export function newCella(): Cella {
  const made = new Cella();
  all.push(made);
  return made;
}

export interface Served {
  readonly url: string;
  readonly tokenFile: string;
  readonly end: () => Promise<void>;
}

/** A server on the data folder of this one. */
export async function serve(
  on: Cella,
  flags: readonly string[] = [],
  env: Record<string, string> = {},
): Promise<Served> {
  const served = on.start(['serve', '--port', '0', '--log-level', 'error', ...flags], { env });
  servers.push(served);
  await served.says('The first cell');
  const url = / at (https?:\S+)/.exec(served.out)?.[1] ?? '';
  const end = async () => {
    served.child.kill('SIGTERM');
    await served.ended;
  };
  return { url, tokenFile: join(on.dataDir, 'admin-token'), end };
}

beforeAll(async () => {
  await makeWheel(packages.CELLA_WHEELS, 'tiny-thing');
});

afterAll(async () => {
  for (const { child } of servers) child.kill('SIGTERM');
  await Promise.all(servers.map(({ ended }) => ended));
  for (const one of all) {
    // Package sets cannot be written to: what is in them cannot be removed as it is.
    await removeFolder(join(one.dataDir, 'packages'));
    one[Symbol.dispose]();
  }
  rmSync(folder, { recursive: true, force: true });
});
