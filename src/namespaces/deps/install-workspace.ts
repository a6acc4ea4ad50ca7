/** The folders in which one set is built: one beside the sets, and one in /tmp for the user who runs the installer. */

import { randomBytes } from 'node:crypto';
import { chown, mkdir, mkdtemp, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { ownProcess, processState } from '../../lib/process-identity.ts';
import { CellaError } from '../../protocol/errors.ts';
import { type SandboxUser, sandboxUser } from '../../sandbox/spec.ts';
import { removeTree } from './read-only-tree.ts';

export interface InstallWorkspace extends AsyncDisposable {
  readonly identity: SandboxUser;
  /** What the installer fills. */
  readonly target: string;
  readonly requirementsFile: string;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** Not there yet: a folder for this process alone. */
  readonly inside: string;
  /** Not there yet: the set, on the file system that it will stay on. */
  readonly copy: string;
}

const NOBODY = 65_534;
/** For builds of other containers, whose processes cannot be seen: no install takes this long. */
const FORGOTTEN_MS = 24 * 3600 * 1000;
const NOTE = 'installer-folder';

/** The data folder is closed to other users, so that the installer works elsewhere and the result is copied. */
export async function openInstallWorkspace(folder: string, requirements: string): Promise<InstallWorkspace> {
  const own = join(folder, `${ownProcess()}.${randomBytes(6).toString('hex')}`);
  let scratch: string | undefined;
  const dispose = async () => {
    if (scratch !== undefined) await removeTree(scratch);
    await removeTree(own);
  };
  try {
    await mkdir(own, { recursive: true, mode: 0o700 });
    const identity = installerIdentity(own);
    scratch = await mkdtemp(join(await temporaryFolder(identity), 'cella-install-'));
    // Written first, so that a sweep after a crash finds the folder without trusting names in /tmp.
    await writeFile(join(own, NOTE), scratch, { mode: 0o600 });
    const home = join(scratch, 'home');
    const temporary = join(scratch, 'tmp');
    const target = join(scratch, 'target');
    const requirementsFile = join(scratch, 'requirements.txt');
    for (const path of [home, temporary, target]) await mkdir(path, { mode: 0o700 });
    await writeFile(requirementsFile, requirements, { mode: 0o400 });
    if (identity.root) {
      for (const path of [home, temporary, target, requirementsFile, scratch]) {
        await chown(path, identity.uid, identity.gid);
      }
    }
    const env = { PATH: '/usr/local/bin:/usr/bin:/bin', HOME: home, TMPDIR: temporary, LANG: 'C.UTF-8' };
    return {
      identity,
      target,
      requirementsFile,
      cwd: home,
      // pip reads the machine's settings even where it is told to be isolated.
      env: { ...env, PIP_CONFIG_FILE: '/dev/null' },
      inside: join(own, 'inside'),
      copy: join(own, 'set'),
      [Symbol.asyncDispose]: dispose,
    };
  } catch (cause) {
    await dispose();
    throw folderError('There is no place to install packages in', cause);
  }
}

/** One that the installer's user can reach: a system folder where TMPDIR is root's own. */
async function temporaryFolder({ root }: SandboxUser): Promise<string> {
  const own = tmpdir();
  return !root || (await isOpenToAll(own)) ? own : '/tmp';
}

async function isOpenToAll(path: string): Promise<boolean> {
  const { mode } = await stat(path);
  return (mode & 0o001) !== 0 && (dirname(path) === path || (await isOpenToAll(dirname(path))));
}

/** On a root host a user that nothing else runs as. */
function installerIdentity(folder: string): SandboxUser {
  const identity = sandboxUser(folder, true);
  return identity.uid === 0 ? { root: true, uid: NOBODY, gid: NOBODY } : identity;
}

/** Removes what killed builds have left. What cannot be removed waits for the next sweep. */
export async function sweepInstallWorkspaces(folder: string): Promise<void> {
  const names = await readdir(folder).catch(() => []); // nothing was built here yet
  for (const name of names) {
    const path = join(folder, name);
    if (!(await isAbandoned(path, name))) continue;
    const scratch = await readFile(join(path, NOTE), 'utf8').catch(() => ''); // killed before it had one
    try {
      if (scratch !== '') await removeTree(scratch);
      await removeTree(path);
    } catch {
      // Not ours, or another process removes it: the next sweep tries again.
    }
  }
}

async function isAbandoned(path: string, name: string): Promise<boolean> {
  const state = processState(name);
  if (state !== 'unknown') return state === 'dead';
  const stats = await stat(path).catch(() => undefined); // its build has ended meanwhile
  return stats !== undefined && Date.now() - stats.mtimeMs > FORGOTTEN_MS;
}

export function folderError(what: string, cause: unknown): CellaError {
  const why = cause instanceof Error ? cause.message : String(cause);
  return new CellaError('STORAGE_FAILED', `${what}: ${why}.`, { cause });
}
