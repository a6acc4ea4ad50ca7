/** Which program would install packages on this machine, for whoever wants to know before there is anything to install. */

import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { probeInterpreter } from '../../interpreter/find-python.ts';
import { findInstaller } from './find-installer.ts';
import { removeTree } from './frozen.ts';
import { ownSearchPath } from './search-path.ts';
import { openWorkplace } from './workplace.ts';

/** With its version: `pip 23.0.1`. INSTALLER_MISSING where there is none. */
export async function installerHere(python: string): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'cella-installer-'));
  try {
    await using workplace = await openWorkplace(folder, '');
    const { identity, cwd, env } = workplace;
    const attempt = { identity, cwd, env, signal: new AbortController().signal };
    return (await findInstaller(await probeInterpreter(python), ownSearchPath(), attempt)).name;
  } finally {
    await removeTree(folder);
  }
}
