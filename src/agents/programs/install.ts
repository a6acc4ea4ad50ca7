/**
 * Brings the program of an agent, whole or not at all: it is made under another name, takes its own when it is done, and
 * is used from then on.
 */

import { chmod, mkdir, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { CellaError } from '../../protocol/errors.ts';
import { agentFolder, checkedVersion, type Installed, installedVersions, missingIn, partIn } from './folder.ts';
import { npmInstall } from './npm.ts';
import type { AgentProgram } from './program.ts';
import { Progress } from './progress.ts';
import { useVersion } from './used.ts';

export interface InstallOptions {
  /** The folder of all agents' programs. */
  readonly programs: string;
  /** That of the adapter by default. */
  readonly version?: string | undefined;
  readonly signal?: AbortSignal;
  readonly onProgress?: (text: string) => void;
  readonly npm?: string;
}

export interface InstallResult extends Installed {
  /** It was there already. */
  readonly kept: boolean;
}

const PART = /^\.part-(\d+)-/;

export async function installProgram(program: AgentProgram, options: InstallOptions): Promise<InstallResult> {
  const { programs, signal = new AbortController().signal, onProgress = () => {}, npm = 'npm' } = options;
  const version = checkedVersion(options.version ?? program.version);
  const find = async () => (await installedVersions(programs, program)).find((one) => one.version === version);
  const folder = agentFolder(programs, program);
  await mkdir(folder, { recursive: true });
  for (const each of [dirname(folder), folder]) await chmod(each, 0o755);
  const there = await find();
  if (there?.missing.length === 0) {
    await useVersion(programs, program, version);
    return { ...there, kept: true };
  }
  await removeLeftovers(folder);
  const part = partIn(folder);
  try {
    await bring(part, { ...program, version }, { signal, npm, onProgress });
    // One that is damaged makes room; one that another has brought meanwhile is as good.
    if (there) await rm(there.path, { recursive: true, force: true });
    await rename(part, join(folder, version)).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error;
    });
  } finally {
    await rm(part, { recursive: true, force: true });
  }
  const installed = await find();
  if (installed?.missing.length !== 0) {
    throw new CellaError('AGENT_INSTALL_FAILED', `${program.title} ${version} has gone while it was installed.`);
  }
  await useVersion(programs, program, version);
  return { ...installed, kept: false };
}

export async function removeProgram(programs: string, program: AgentProgram, version?: string): Promise<Installed[]> {
  const wanted = version === undefined ? undefined : checkedVersion(version);
  const all = await installedVersions(programs, program);
  const chosen = all.filter((one) => wanted === undefined || one.version === wanted);
  for (const { path } of chosen) {
    // Gone at once for whoever looks, however long it takes.
    const gone = partIn(agentFolder(programs, program));
    await rename(path, gone);
    await rm(gone, { recursive: true, force: true });
  }
  if (chosen.length > 0) return chosen;
  const what = wanted === undefined ? program.title : `${program.title} ${wanted}`;
  throw new CellaError('AGENT_NOT_INSTALLED', `${what} is not installed in ${programs}.`, {
    advice: '`cella agents list` shows what is.',
  });
}

interface Work {
  readonly signal: AbortSignal;
  readonly npm: string;
  readonly onProgress: (text: string) => void;
}

async function bring(part: string, program: AgentProgram, { signal, npm, onProgress }: Work): Promise<void> {
  const { packageName, version } = program;
  await mkdir(part);
  const manifest = { name: 'cella-agent', private: true, dependencies: { [packageName]: version } };
  await writeFile(join(part, 'package.json'), `${JSON.stringify(manifest, undefined, 2)}\n`);
  {
    using progress = new Progress(part, program, onProgress);
    await npmInstall(part, { signal, npm, onStep: progress.take });
  }
  const missing = await missingIn(part, program);
  if (missing.length > 0) {
    const message = `npm brought ${packageName} ${version} without ${missing.join(', ')}.`;
    throw new CellaError('AGENT_INSTALL_FAILED', message, {
      advice:
        'See that npm does not leave optional packages out (`npm config get omit`), and that there is one for this machine.',
    });
  }
  await openToAll(part);
}

/** Agents run as other users, whatever the umask here. They may read it all, and change nothing. */
async function openToAll(folder: string): Promise<void> {
  await chmod(folder, 0o755);
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) await openToAll(path);
    else if (entry.isFile()) await chmod(path, (await stat(path)).mode & 0o100 ? 0o755 : 0o644);
  }
}

/** Of an install that was killed: its process is gone. */
async function removeLeftovers(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    const pid = PART.exec(name)?.[1];
    if (pid !== undefined && !isAlive(Number(pid))) await rm(join(folder, name), { recursive: true, force: true });
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM'; // another user's
  }
}
