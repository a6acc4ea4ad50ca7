/** Which program installs packages here, and what it is told. Requirements and indexes go into a file, never into argv. */

import { access, constants } from 'node:fs/promises';
import { delimiter, isAbsolute, join } from 'node:path';
import { CellaError } from '../../protocol/errors.ts';
import { type InstallerRun, runInstaller } from './process.ts';
import { indexesOf, type PackageSource } from './source.ts';

export interface Job {
  /** The Python that the packages are for. */
  readonly python: string;
  readonly requirementsFile: string;
  readonly target: string;
  readonly source: PackageSource;
}

export interface Installer {
  /** `uv`, or `pip` with its version, as the manifest says it. */
  readonly name: string;
  readonly command: string;
  args(job: Job): string[];
}

/** How to run a program as the installer's user. */
export type Attempt = Pick<InstallerRun, 'identity' | 'cwd' | 'env' | 'signal'>;

const PROBE_MS = 30_000;
/** The first pip that can install for another Python. */
const OLDEST_FOREIGN_PIP = [22, 3] as const;

/** The first one that the installer's user can run: uv, the pip of this Python, the pip of another Python. */
export async function findInstaller(python: string, searchPath: string, attempt: Attempt): Promise<Installer> {
  for (const command of await programs('uv', searchPath)) {
    const version = await firstLine(command, ['--version'], attempt);
    if (version !== undefined) return { name: version, command, args: uvArgs };
  }
  const own = await pipOf(python, attempt);
  if (own) return { name: own.name, command: python, args: (job) => ['-I', '-m', 'pip', ...pipArgs(job)] };
  for (const other of [...(await programs('python3', searchPath)), '/usr/bin/python3']) {
    const pip = other === python ? undefined : await pipOf(other, attempt);
    if (!pip || isOlder(pip.version)) continue;
    const foreign = (job: Job) => ['-I', '-m', 'pip', '--python', job.python, ...pipArgs(job)];
    return { name: pip.name, command: other, args: foreign };
  }
  const who = attempt.identity.root ? ` that an ordinary user can run (packages are never installed as root)` : '';
  throw new CellaError('INSTALLER_MISSING', `There is no uv on PATH and no pip for ${python}${who}.`, {
    details: { python },
  });
}

export function uvArgs({ python, requirementsFile, target, source }: Job): string[] {
  return [
    ...['pip', 'install', '--no-config', '--no-cache', '--no-progress', '--color', 'never'],
    ...['--target', target, '--python', python, '--no-python-downloads'],
    ...['--only-binary', ':all:', '--link-mode', 'copy'],
    ...(source.noIndex ? ['--no-index'] : []),
    ...source.wheelFolders.flatMap((folder) => ['--find-links', folder]),
    ...['--requirement', requirementsFile],
  ];
}

export function pipArgs({ requirementsFile, target, source }: Job): string[] {
  const plain = indexesOf(source).filter(({ protocol }) => protocol === 'http:');
  return [
    ...['install', '--isolated', '--no-input', '--disable-pip-version-check', '--no-cache-dir', '--no-color'],
    ...['--progress-bar', 'off', '--retries', '2', '--timeout', '15', '--no-warn-script-location'],
    ...['--target', target, '--only-binary', ':all:', '--no-compile'],
    ...(source.noIndex ? ['--no-index'] : []),
    ...source.wheelFolders.flatMap((folder) => ['--find-links', folder]),
    // The operator names them with http: that pip asks for a second word on it helps nobody.
    ...plain.flatMap(({ host }) => ['--trusted-host', host]),
    ...['--requirement', requirementsFile],
  ];
}

/** Read by pip and by uv, and by nobody else: an index may have a password. */
export function requirementsText(requirements: readonly string[], source: PackageSource): string {
  const lines = [
    ...(source.index === undefined ? [] : [`--index-url ${source.index}`]),
    ...source.extraIndexes.map((index) => `--extra-index-url ${index}`),
    ...requirements,
  ];
  return lines.map((line) => `${line}\n`).join('');
}

async function pipOf(python: string, attempt: Attempt): Promise<{ name: string; version: number[] } | undefined> {
  const line = await firstLine(python, ['-I', '-m', 'pip', '--version'], attempt);
  const [name, major, minor] = /^pip (\d+)\.(\d+)\S*/.exec(line ?? '') ?? [];
  return name === undefined ? undefined : { name, version: [Number(major), Number(minor)] };
}

/** Undefined where the program cannot be run, or fails. */
async function firstLine(command: string, args: string[], attempt: Attempt): Promise<string | undefined> {
  const { ending, lines } = await runInstaller({ command, args, timeoutMs: PROBE_MS, ...attempt });
  return ending.kind === 'ended' && ending.code === 0 ? lines[0] : undefined;
}

async function programs(name: string, searchPath: string): Promise<string[]> {
  const found: string[] = [];
  for (const folder of searchPath.split(delimiter)) {
    const path = join(folder, name);
    // A relative entry would name a program in whatever folder this process works in.
    if (!isAbsolute(folder)) continue;
    const usable = await access(path, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (usable) found.push(path);
  }
  return found;
}

function isOlder([major = 0, minor = 0]: readonly number[]): boolean {
  const [oldestMajor, oldestMinor] = OLDEST_FOREIGN_PIP;
  return major < oldestMajor || (major === oldestMajor && minor < oldestMinor);
}
