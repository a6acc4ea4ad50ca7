/**
 * Installs an agent's program with npm, completely or not at all: in a temporary folder that is renamed when it is
 * complete. The new version becomes the active one.
 */

import { chmod, mkdir, readdir, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { answerFromProcess } from '../lib/deadline.ts';
import { folderSize } from '../lib/folder-size.ts';
import { isProcessAlive } from '../lib/process-identity.ts';
import { finishProcess, startProcess } from '../lib/run-process.ts';
import { systemCode } from '../lib/values.ts';
import { CellaError } from '../protocol/errors.ts';
import {
  type AgentProgram,
  agentFolder,
  checkedVersion,
  type InstalledProgram,
  installedVersions,
  missingFiles,
  setActiveVersion,
  tempPath,
} from './installed-programs.ts';

interface InstallOptions {
  /** The folder of all agents' programs. */
  readonly programs: string;
  /** Default: the version that the adapter is tested with. */
  readonly version?: string | undefined;
  readonly signal?: AbortSignal;
  readonly onProgress?: (text: string) => void;
  readonly npm?: string;
}

interface InstallResult extends InstalledProgram {
  /** It was installed already. */
  readonly kept: boolean;
}

const TEMP_NAME = /^\.part-(\d+)-/;

export async function installProgram(program: AgentProgram, options: InstallOptions): Promise<InstallResult> {
  const { programs, signal = new AbortController().signal, onProgress = () => {}, npm = 'npm' } = options;
  const version = checkedVersion(options.version ?? program.version);
  const find = async () => (await installedVersions(programs, program)).find((one) => one.version === version);
  const folder = agentFolder(programs, program);
  await mkdir(folder, { recursive: true });
  for (const each of [dirname(folder), folder]) await chmod(each, 0o755);
  const there = await find();
  if (there?.missing.length === 0) {
    await setActiveVersion(programs, program, version);
    return { ...there, kept: true };
  }
  await removeLeftovers(folder);
  const part = tempPath(folder);
  try {
    await installInto(part, { ...program, version }, { signal, npm, onProgress });
    // Replaces a damaged install; one that another process made meanwhile is kept.
    if (there) await rm(there.path, { recursive: true, force: true });
    await rename(part, join(folder, version)).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOTEMPTY' && error.code !== 'EEXIST') throw error;
    });
  } finally {
    await rm(part, { recursive: true, force: true });
  }
  const installed = await find();
  if (installed?.missing.length !== 0) {
    throw new CellaError('AGENT_INSTALL_FAILED', `${program.title} ${version} was removed during the installation.`);
  }
  await setActiveVersion(programs, program, version);
  return { ...installed, kept: false };
}

export async function removeProgram(
  programs: string,
  program: AgentProgram,
  version?: string,
): Promise<InstalledProgram[]> {
  const wanted = version === undefined ? undefined : checkedVersion(version);
  const all = await installedVersions(programs, program);
  const chosen = all.filter((one) => wanted === undefined || one.version === wanted);
  for (const { path } of chosen) {
    // Renamed first, so that it disappears at once.
    const removed = tempPath(agentFolder(programs, program));
    await rename(path, removed);
    await rm(removed, { recursive: true, force: true });
  }
  if (chosen.length > 0) return chosen;
  const what = wanted === undefined ? program.title : `${program.title} ${wanted}`;
  throw new CellaError('AGENT_NOT_INSTALLED', `${what} is not installed in ${programs}.`, {
    advice: '`cella agents list` shows what is.',
  });
}

interface InstallWork {
  readonly signal: AbortSignal;
  readonly npm: string;
  readonly onProgress: (text: string) => void;
}

async function installInto(
  part: string,
  program: AgentProgram,
  { signal, npm, onProgress }: InstallWork,
): Promise<void> {
  const { packageName, version } = program;
  await mkdir(part);
  const manifest = { name: 'cella-agent', private: true, dependencies: { [packageName]: version } };
  await writeFile(join(part, 'package.json'), `${JSON.stringify(manifest, undefined, 2)}\n`);
  {
    using progress = new InstallProgressReporter(part, program, onProgress);
    await npmInstall(part, { signal, npm, onStep: progress.take });
  }
  const missing = await missingFiles(part, program);
  if (missing.length > 0) {
    const message = `npm installed ${packageName} ${version} without ${missing.join(', ')}.`;
    throw new CellaError('AGENT_INSTALL_FAILED', message, {
      advice: 'Check that npm installs optional packages (`npm config get omit`), and that this machine is supported.',
    });
  }
  await makeReadable(part);
}

/** Agents run as other users, who may read everything and change nothing, whatever the umask. */
async function makeReadable(folder: string): Promise<void> {
  await chmod(folder, 0o755);
  for (const entry of await readdir(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) await makeReadable(path);
    else if (entry.isFile()) await chmod(path, (await stat(path)).mode & 0o100 ? 0o755 : 0o644);
  }
}

/** Removes the folders of installs that were killed. */
async function removeLeftovers(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    const pid = TEMP_NAME.exec(name)?.[1];
    if (pid !== undefined && !isProcessAlive(Number(pid)))
      await rm(join(folder, name), { recursive: true, force: true });
  }
}

/** No install scripts run here. */
const ARGV = [
  'install',
  '--ignore-scripts',
  '--include=optional',
  '--omit=dev',
  '--no-audit',
  '--no-fund',
  '--no-update-notifier',
  '--package-lock=true',
  '--global=false',
  '--loglevel=http',
  '--fetch-retries=1',
  '--fetch-retry-mintimeout=1000',
];
/** npm has its own network timeout. This covers everything else, also on a slow line. */
const LONGEST_INSTALL_MS = 60 * 60_000;
const MAX_STDERR_CHARS = 16_384;
const MAX_ERROR_LINES = 4;
const UNREACHABLE =
  /\b(ENOTFOUND|ECONNREFUSED|ECONNRESET|ETIMEDOUT|EAI_AGAIN|ENETUNREACH|ERR_SOCKET_TIMEOUT|EHOSTUNREACH)\b/;
const UNKNOWN = /\b(ETARGET|E404)\b/;
/** npm's lines for a package's metadata, and for its archive. */
const ASKED = /^npm http fetch GET 200 (?!\S+\.tgz )/;
const WANTED = /^npm http cache \S+\.tgz /;
const NO_FAILURE = /^npm (http|warn|notice)\b/;

interface NpmOptions {
  readonly signal: AbortSignal;
  /** A name in PATH, or a path. */
  readonly npm: string;
  /** Called on progress. */
  readonly onStep?: (step: NpmStep) => void;
}

/** `asked`: packages whose metadata was requested. `wanted`: archives to download. */
interface NpmStep {
  readonly asked: number;
  readonly wanted: number;
}

/** Installs the dependencies of the folder's package.json. */
async function npmInstall(folder: string, { signal, npm, onStep = () => {} }: NpmOptions): Promise<void> {
  signal.throwIfAborted();
  let stderrTail = '';
  let step: NpmStep = { asked: 0, wanted: 0 };
  const onLine = (line: string, stream: 'stdout' | 'stderr') => {
    if (stream === 'stdout') return;
    if (ASKED.test(line)) step = { ...step, asked: step.asked + 1 };
    if (WANTED.test(line)) step = { ...step, wanted: step.wanted + 1 };
    if (NO_FAILURE.test(line)) onStep(step);
    else stderrTail = `${stderrTail}${line}\n`.slice(-MAX_STDERR_CHARS);
  };
  const child = startProcess([npm, ...ARGV], { cwd: folder });
  const ended = finishProcess(child, { signal, outputLimitBytes: 0, onLine });
  try {
    const waiting = { pid: child.pid ?? 0, timeoutMs: LONGEST_INSTALL_MS };
    const silent = (why: string) => new CellaError('AGENT_INSTALL_FAILED', `npm was ended: ${why}.`);
    const { exit } = await answerFromProcess(ended, waiting, silent).catch(async (error) => {
      child.kill();
      await ended;
      throw error;
    });
    signal.throwIfAborted();
    if (exit.code !== 0)
      throw npmError(stderrTail, exit.signal ? `was ended by ${exit.signal}` : `ended with ${exit.code}`);
  } catch (cause) {
    if (systemCode(cause) === 'ENOENT') {
      throw new CellaError('NPM_MISSING', `${npm} was not found.`, { cause });
    }
    throw cause;
  }
}

function npmError(stderrTail: string, how: string): CellaError {
  const lines = stderrTail.split('\n').map((line) => line.replace(/^npm (error|ERR!) ?/, ''));
  const telling = lines.filter((line) => /^\S/.test(line) && !/^(A complete log|at |\}|syscall|errno)/.test(line));
  const shown = telling
    .slice(0, MAX_ERROR_LINES)
    .join('\n')
    .replace(/\/\/[^/\s@]+@/g, '//…@'); // may contain a password
  const message = `npm ${how}.\n${shown}`.trim();
  if (UNREACHABLE.test(stderrTail)) return new CellaError('REGISTRY_UNREACHABLE', message);
  if (!UNKNOWN.test(stderrTail)) return new CellaError('AGENT_INSTALL_FAILED', message);
  const advice =
    'The registry does not have this version. Leave --version out to get the one that Cella is tested with.';
  return new CellaError('AGENT_INSTALL_FAILED', message, { advice });
}

const EVERY_MS = 1000;

class InstallProgressReporter implements Disposable {
  readonly #folder: string;
  readonly #program: AgentProgram;
  readonly #onProgress: (text: string) => void;
  readonly #timer: NodeJS.Timeout;
  #step: NpmStep = { asked: 0, wanted: 0 };
  #last = '';
  #over = false;

  /** `onProgress` is called at once and on each change. */
  constructor(folder: string, program: AgentProgram, onProgress: (text: string) => void) {
    this.#folder = folder;
    this.#program = program;
    this.#onProgress = onProgress;
    this.#report(describeStep(this.#step));
    this.#timer = setInterval(() => void this.#measure(), EVERY_MS);
  }

  readonly take = (step: NpmStep): void => {
    this.#step = step;
  };

  [Symbol.dispose](): void {
    this.#over = true;
    clearInterval(this.#timer);
  }

  async #measure(): Promise<void> {
    const done = Math.round((await folderSize(this.#folder)) / 1e6);
    if (!this.#over)
      this.#report(done > 0 ? `${done} of about ${this.#program.megabytes} MB` : describeStep(this.#step));
  }

  #report(how: string): void {
    if (how !== this.#last)
      this.#onProgress(`Installing ${this.#program.title} ${this.#program.version} with npm: ${how}`);
    this.#last = how;
  }
}

/** Used until there is something to measure. */
function describeStep({ asked, wanted }: NpmStep): string {
  const counted = (count: number) => `${count} package${count === 1 ? '' : 's'}`;
  if (wanted > 0) return `fetching ${counted(wanted)}`;
  return `asking the registry${asked === 0 ? '' : `: ${counted(asked)} so far`}`;
}
