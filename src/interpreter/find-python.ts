/** Finds the host's Python and asks it about itself, once per path. */

import { readFileSync } from 'node:fs';
import { access, constants, open, stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import { delimiter, isAbsolute, join, resolve } from 'node:path';
import { z } from 'zod';
import { tryParseJson } from '../lib/json-scanner.ts';
import { runProgram } from '../lib/run-process.ts';
import { MemoizedByKey } from '../lib/single-flight.ts';
import { messageOf } from '../lib/values.ts';
import type { Interpreter } from '../protocol/environment-spec.ts';
import { CellaError } from '../protocol/errors.ts';
import { packageFile } from './package-file.ts';

/** A Python of the host. It chooses wheels for itself. */
interface HostInterpreter extends Interpreter {
  /** The program itself, if the given path is a version manager's shim. */
  readonly executable: string;
  /** Folders that the interpreter and its packages are loaded from. */
  readonly packageFolders: readonly string[];
}

const OLDEST_VERSION = [3, 9] as const;
export const OLDEST_PYTHON = OLDEST_VERSION.join('.');
const PROBE_TIMEOUT_MS = 30_000;

const Version = z.object({ version: z.tuple([z.int(), z.int(), z.int()]) });

export const InterpreterTag = z.string().regex(/^[a-z]+\d+[a-z]*(-musl)?-[A-Za-z0-9_]+$/);

const ProbeAnswer = Version.extend({
  tag: InterpreterTag,
  executable: z.string().startsWith('/'),
  packageFolders: z.array(z.string().startsWith('/')),
});

/** The path of `wanted`, which is a path or a name on PATH. Defaults to the machine's `python3`. */
export async function findPython(wanted?: string, searchPath = hostSearchPath()): Promise<string> {
  const name = wanted ?? 'python3';
  if (name.includes('/')) {
    const path = resolve(name);
    if (await isProgram(path)) return path;
    throw new CellaError('PYTHON_NOT_FOUND', `${path} is not a program that this user can run.`, { details: { path } });
  }
  // A relative entry of PATH would search whatever folder the code works in.
  const folders = searchPath.split(delimiter).filter((folder) => isAbsolute(folder));
  let shim: string | undefined;
  for (const folder of folders) {
    const path = join(folder, name);
    if (!(await isProgram(path))) continue;
    if (!(await isScript(path))) return path;
    shim ??= path;
  }
  if (shim !== undefined) return shim;
  const details = { name, folders };
  throw new CellaError('PYTHON_NOT_FOUND', `There is no ${name} on PATH (${folders.join(delimiter)}).`, { details });
}

/** The PATH of this process. */
export function hostSearchPath(): string {
  // biome-ignore lint/style/noProcessEnv: PATH is where any program is looked up, not a setting of Cella's.
  return process.env.PATH ?? '';
}

async function isProgram(path: string): Promise<boolean> {
  try {
    await access(path, constants.X_OK);
    return (await stat(path)).isFile();
  } catch {
    return false; // missing, or not executable for this user
  }
}

/** A version manager's shim looks up the interpreter at each start, which takes longer than the start itself. */
async function isScript(path: string): Promise<boolean> {
  try {
    await using file = await open(path);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(2), 0, 2, 0);
    return bytesRead === 2 && buffer.toString('latin1') === '#!';
  } catch {
    return false; // executable but not readable, which works for programs and not for scripts
  }
}

/** The text of the program that asks any Python 3 about itself. */
export const probeProgram = (): string => readFileSync(packageFile('python/cella_probe.py'), 'utf8');

export const probeArgs = (): string[] => ['-I', '-X', 'utf8', '-c', probeProgram()];

const knownPythons = new MemoizedByKey<string, HostInterpreter>();

/** Probes each Python once. Failures are not cached, because the user may fix them. */
export function probePython(path: string): Promise<HostInterpreter> {
  return knownPythons.get(path, () => runProbe(path));
}

async function runProbe(path: string): Promise<HostInterpreter> {
  const output = await runProgram([path, ...probeArgs()], PROBE_TIMEOUT_MS).catch((cause) => {
    throw new CellaError('PYTHON_NOT_FOUND', `${path} could not be run as a Python: ${messageOf(cause)}.`, { cause });
  });
  const answer = tryParseJson(output);
  const version = oldVersion(answer);
  if (version) {
    const message = `${path} is Python ${version.join('.')}; ${OLDEST_PYTHON} or later is needed.`;
    throw new CellaError('PYTHON_NOT_FOUND', message, { details: { path, version } });
  }
  const found = readProbeAnswer(output);
  if (found) return found;
  const words = JSON.stringify(output.slice(0, 200));
  throw new CellaError('PYTHON_NOT_FOUND', `${path} gave an invalid answer: ${words}.`);
}

/** A warning before the first kernel starts: this machine has no Python, or none that Cella can use. */
export async function missingPythonWarning(wanted?: string): Promise<string | undefined> {
  try {
    await probePython(await findPython(wanted));
    return undefined;
  } catch (error) {
    if (!(error instanceof CellaError)) throw error;
    return `${error.message} Sandboxed kernels cannot start without it. ${error.advice}`;
  }
}

/** The version in a probe's answer, if Cella does not support it. */
export function oldVersion(answer: unknown): readonly number[] | undefined {
  const { version } = Version.safeParse(answer).data ?? {};
  if (!version) return undefined;
  const [major, minor] = version;
  const isOld = major < OLDEST_VERSION[0] || (major === OLDEST_VERSION[0] && minor < OLDEST_VERSION[1]);
  return isOld ? version : undefined;
}

export function readProbeAnswer(text: string): HostInterpreter | undefined {
  const answer = ProbeAnswer.safeParse(tryParseJson(text)).data;
  if (!answer) return undefined;
  const { tag, executable, packageFolders } = answer;
  const [major, minor] = answer.version;
  return {
    ...{ tag, executable, version: [major, minor], platforms: [] },
    packageFolders: packageFolders.filter(holdsPackagesOnly),
  };
}

/** A path file may name any folder. A folder that contains a home or the system is not mounted into a sandbox for that. */
export function holdsPackagesOnly(folder: string): boolean {
  const wide = ['/boot', '/dev', '/etc', '/home', '/proc', '/root', '/run', '/sys', '/tmp', '/var', homedir()];
  return !wide.some((path) => `${path}/`.startsWith(`${folder.replace(/\/+$/, '')}/`));
}
