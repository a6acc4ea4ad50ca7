/**
 * The folders in which a package set is built: one beside the sets, and one in /tmp for the user who runs the installer.
 * The finished set is a read-only copy.
 */

import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { chmod, chown, copyFile, lstat, mkdir, mkdtemp, readdir, readFile, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { removeFolder } from '../../environments/files/remove-tree.ts';
import { entriesOf } from '../../lib/large-folders.ts';
import { ownProcess, processState } from '../../lib/process-identity.ts';
import { messageOf } from '../../lib/values.ts';
import { CellaError } from '../../protocol/errors.ts';
import { type SandboxUser, sandboxUser } from '../../sandbox/sandbox-user.ts';

export interface InstallWorkspace extends AsyncDisposable {
  readonly identity: SandboxUser;
  /** The folder that the installer fills. */
  readonly target: string;
  readonly requirementsFile: string;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** The path of a folder for this process alone, which does not exist yet. */
  readonly inside: string;
  /** The path of the finished set, which does not exist yet, on its final file system. */
  readonly copy: string;
}

const NOBODY = 65_534;
/** Longer than any install. For builds in other containers, whose processes cannot be seen. */
const FORGOTTEN_MS = 24 * 3600 * 1000;
const NOTE = 'installer-folder';

/** Other users cannot enter the data folder, so the installer works in another folder, and the result is copied. */
export async function openInstallWorkspace(folder: string, requirements: string): Promise<InstallWorkspace> {
  const own = join(folder, `${ownProcess()}.${randomBytes(6).toString('hex')}`);
  let scratch: string | undefined;
  const dispose = async () => {
    if (scratch !== undefined) await removeFolder(scratch);
    await removeFolder(own);
  };
  try {
    await mkdir(own, { recursive: true, mode: 0o700 });
    const identity = installerIdentity(own);
    scratch = await mkdtemp(join(await temporaryFolder(identity), 'cella-install-'));
    // Written first, so that cleanup after a crash finds the folder without trusting names in /tmp.
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
      // pip reads the machine's settings even with `--isolated`.
      env: { ...env, PIP_CONFIG_FILE: '/dev/null' },
      inside: join(own, 'inside'),
      copy: join(own, 'set'),
      [Symbol.asyncDispose]: dispose,
    };
  } catch (cause) {
    await dispose();
    throw folderError('There is no folder to install packages in', cause);
  }
}

/** A temporary folder that the installer's user can reach. If TMPDIR is private to root, a system folder. */
async function temporaryFolder({ root }: SandboxUser): Promise<string> {
  const own = tmpdir();
  return !root || (await isOpenToAll(own)) ? own : '/tmp';
}

async function isOpenToAll(path: string): Promise<boolean> {
  const { mode } = await stat(path);
  return (mode & 0o001) !== 0 && (dirname(path) === path || (await isOpenToAll(dirname(path))));
}

/** The installer's user: on a root host, one that nothing else runs as. */
function installerIdentity(folder: string): SandboxUser {
  const identity = sandboxUser(folder, true);
  return identity.uid === 0 ? { root: true, uid: NOBODY, gid: NOBODY } : identity;
}

/** Removes the folders of killed builds. If one cannot be removed, the next sweep tries again. */
export async function sweepInstallWorkspaces(folder: string): Promise<void> {
  const names = await readdir(folder).catch(() => []); // nothing was built here yet
  for (const name of names) {
    const path = join(folder, name);
    if (!(await isAbandoned(path, name))) continue;
    const scratch = await readFile(join(path, NOTE), 'utf8').catch(() => ''); // killed before it had one
    try {
      if (scratch !== '') await removeFolder(scratch);
      await removeFolder(path);
    } catch {
      // It belongs to another user, or another process is removing it.
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
  const why = messageOf(cause);
  return new CellaError('STORAGE_FAILED', `${what}: ${why}.`, { cause });
}

const AT_ONCE = 16;

/**
 * Copies files and folders, which then belong to this process: all users can read them, and none can write. Refuses links
 * and devices: no wheel needs them, and they could expose files outside the set.
 */
export async function copyReadOnly(from: string, to: string): Promise<void> {
  await mkdir(to, { mode: 0o755 });
  const [files, folders]: [string[], string[]] = [[], []];
  for await (const entry of entriesOf(from)) (entry.isDirectory() ? folders : files).push(entry.name);
  for (const name of folders) await copyReadOnly(join(from, name), join(to, name));
  for (let first = 0; first < files.length; first += AT_ONCE) {
    const some = files.slice(first, first + AT_ONCE);
    await Promise.all(some.map((name) => copyFileReadOnly(join(from, name), join(to, name))));
  }
  await chmod(to, 0o555);
}

async function copyFileReadOnly(from: string, to: string): Promise<void> {
  const stats = await lstat(from);
  if (!stats.isFile()) throw new Error(`${from} is neither a file nor a folder`);
  await copyFile(from, to, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
  // A copy by root keeps its owner.
  if (process.getuid && process.getgid) await chown(to, process.getuid(), process.getgid());
  await chmod(to, (stats.mode & 0o111) === 0 ? 0o444 : 0o555);
}
