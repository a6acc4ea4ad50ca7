/** Finds the host's Python and asks it about itself, once per path. */

import { access, constants, open, stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import { delimiter, isAbsolute, join, resolve } from 'node:path';
import { z } from 'zod';
import { runProgram } from '../lib/run-program.ts';
import { MemoizedByKey } from '../lib/single-flight.ts';
import { CellaError } from '../protocol/errors.ts';
import type { Interpreter } from '../protocol/interpreter.ts';
import { packageFile } from './package-file.ts';

export interface InterpreterFacts {
  readonly version: readonly [major: number, minor: number, patch: number];
  readonly executable: string;
  /** Folders that the interpreter and its packages are loaded from. */
  readonly packageFolders: readonly string[];
}

const OLDEST_VERSION = [3, 9] as const;
const PROBE_TIMEOUT_MS = 30_000;

/** Runs on any Python 3, so that one that is too old can be told by its version. */
const FACTS_PROGRAM = `
import json, os, sys
places = [sys.prefix, sys.base_prefix, sys.exec_prefix] + sys.path
folders = []
for place in places:
    if place and place != os.sep and os.path.isdir(place) and place not in folders:
        folders.append(place)
print(json.dumps({"version": list(sys.version_info[:3]), "executable": sys.executable, "packageFolders": folders}))
`;

const Facts = z.object({
  version: z.tuple([z.int(), z.int(), z.int()]),
  executable: z.string().min(1),
  packageFolders: z.array(z.string().startsWith('/')),
});

export function kernelPackage(): string {
  return packageFile('python/cella_kernel');
}

/** The path of `wanted`, a path or a name on PATH; without it, of the machine's `python3`. */
export async function findPython(wanted?: string, searchPath = hostSearchPath()): Promise<string> {
  const name = wanted ?? 'python3';
  if (name.includes('/')) {
    const path = resolve(name);
    if (await isProgram(path)) return path;
    throw new CellaError('PYTHON_NOT_FOUND', `${path} is not a program that this user can run.`, { details: { path } });
  }
  // A relative entry of PATH would name a program in whatever folder the code works in.
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
    return false; // missing, or not for this user
  }
}

/** A version manager's shim finds the interpreter anew at each start, which costs more than the start itself. */
async function isScript(path: string): Promise<boolean> {
  try {
    await using file = await open(path);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(2), 0, 2, 0);
    return bytesRead === 2 && buffer.toString('latin1') === '#!';
  } catch {
    return false; // it may be run but not read, as programs may and scripts may not
  }
}

const knownFacts = new MemoizedByKey<string, InterpreterFacts>();

/** Asks each interpreter once; a failure is not remembered, since the reader may mend it. */
export function interpreterFacts(path: string): Promise<InterpreterFacts> {
  return knownFacts.get(path, () => probeFacts(path));
}

async function probeFacts(path: string): Promise<InterpreterFacts> {
  const output = await runFactsProgram(path);
  const parsed = Facts.safeParse(parseJson(output));
  if (!parsed.success) {
    throw new CellaError(
      'PYTHON_NOT_FOUND',
      `${path} did not answer as a Python does: ${JSON.stringify(output.slice(0, 200))}.`,
    );
  }
  const { version } = parsed.data;
  if (version[0] < OLDEST_VERSION[0] || (version[0] === OLDEST_VERSION[0] && version[1] < OLDEST_VERSION[1])) {
    const message = `${path} is Python ${version.join('.')}; ${OLDEST_VERSION.join('.')} or later is needed.`;
    throw new CellaError('PYTHON_NOT_FOUND', message, { details: { path, version } });
  }
  return { ...parsed.data, packageFolders: parsed.data.packageFolders.filter(holdsPackagesOnly) };
}

/** A path file may name any folder. One that holds a home or the system is not shown to a sandbox for that. */
export function holdsPackagesOnly(folder: string): boolean {
  const wide = ['/boot', '/dev', '/etc', '/home', '/proc', '/root', '/run', '/sys', '/tmp', '/var', homedir()];
  return !wide.some((path) => `${path}/`.startsWith(`${folder.replace(/\/+$/, '')}/`));
}

async function runFactsProgram(path: string): Promise<string> {
  try {
    return await runProgram(path, ['-I', '-X', 'utf8', '-c', FACTS_PROGRAM], PROBE_TIMEOUT_MS);
  } catch (cause) {
    throw new CellaError('PYTHON_NOT_FOUND', `${path} could not be run as a Python: ${describeRunFailure(cause)}.`, {
      cause,
    });
  }
}

/** Why a program that was run by `runProgram` failed, in one line: its own last words where it has said any. */
export function describeRunFailure(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { stderr, killed, signal } = error as { stderr?: unknown; killed?: unknown; signal?: unknown };
  if (killed) return 'it did not answer in time';
  const words = typeof stderr === 'string' ? stderr.trim().split('\n').at(-1) : undefined;
  if (words) return words;
  return typeof signal === 'string' ? `it was ended by ${signal}` : (error.message.trim().split('\n')[0] ?? error.name);
}

/** Undefined where the text is no JSON, which no schema takes. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** One of the host's own: wheels for it are chosen by itself. */
export interface HostInterpreter extends Interpreter {
  /** The program itself, where the given path is a version manager's. */
  readonly executable: string;
}

/** Tells the same to whoever runs it. */
export const probeArgs = (): string[] => ['-I', '-S', '-X', 'utf8', '-c', PROBE_PROGRAM];

/** Python that finds `tag`: what is built for one C library does not run with another. */
export const TAG_PROGRAM = `
import os, sys, sysconfig
short = {"cpython": "cp", "pypy": "pp"}.get(sys.implementation.name, sys.implementation.name)
numbers = "%d%d%s" % (sys.version_info[0], sys.version_info[1], getattr(sys, "abiflags", ""))
machine = os.uname().machine
if machine == "x86_64" and sys.maxsize < 2**32:
    machine = "i686"
musl = "musl" in (sysconfig.get_config_var("HOST_GNU_TYPE") or "") + (sysconfig.get_config_var("SOABI") or "")
tag = short + numbers + ("-musl-" if musl else "-") + machine
`;

const PROBE_PROGRAM = `
import json
${TAG_PROGRAM}
facts = {"tag": tag, "version": list(sys.version_info[:2]), "executable": sys.executable}
print(json.dumps(facts))
`;

const ProbeAnswer = z.object({
  tag: z.string().regex(/^[a-z]+\d+[a-z]*(-musl)?-[A-Za-z0-9_]+$/),
  version: z.tuple([z.int(), z.int()]),
  executable: z.string().startsWith('/'),
});

export function readProbeAnswer(text: string): HostInterpreter | undefined {
  const answer = ProbeAnswer.safeParse(parseJson(text)).data;
  return answer && { ...answer, platforms: [] };
}

const knownInterpreters = new MemoizedByKey<string, HostInterpreter>();

/** A failure is not remembered, since the reader may mend it. */
export function probeInterpreter(python: string): Promise<HostInterpreter> {
  return knownInterpreters.get(python, () => runProbe(python));
}

async function runProbe(python: string): Promise<HostInterpreter> {
  const stdout = await runProgram(python, probeArgs(), PROBE_TIMEOUT_MS).catch((cause) => {
    throw probeFailed(python, describeRunFailure(cause), cause);
  });
  const answer = readProbeAnswer(stdout);
  if (!answer) throw probeFailed(python, 'it did not answer as a Python does');
  return answer;
}

function probeFailed(python: string, why: string, cause?: unknown): CellaError {
  return new CellaError('PYTHON_NOT_FOUND', `${python} could not be asked about itself: ${why}.`, { cause });
}
