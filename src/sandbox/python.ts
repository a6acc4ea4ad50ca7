/** The Python that kernels run on: finding it, asking it about itself, and where Cella's own Python lies. */

import { access, constants, open, stat } from 'node:fs/promises';
import { homedir } from 'node:os';
import { delimiter, isAbsolute, join, resolve } from 'node:path';
import { z } from 'zod';
import { runProgram } from '../lib/run-program.ts';
import { CellaError } from '../protocol/errors.ts';
import { packageFile } from './home.ts';

export interface InterpreterFacts {
  readonly version: readonly [major: number, minor: number, patch: number];
  readonly executable: string;
  /** Folders that the interpreter and its packages are loaded from. */
  readonly packageFolders: readonly string[];
}

const OLDEST = [3, 9] as const;
const ANSWER_MS = 30_000;

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
export async function findPython(wanted?: string, searchPath = ownSearchPath()): Promise<string> {
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

function ownSearchPath(): string {
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

const known = new Map<string, Promise<InterpreterFacts>>();

/** Asks each interpreter once; a failure is not remembered, since the reader may mend it. */
export function interpreterFacts(path: string): Promise<InterpreterFacts> {
  const found = known.get(path);
  if (found) return found;
  const asked = askInterpreter(path);
  known.set(path, asked);
  asked.catch(() => known.delete(path));
  return asked;
}

async function askInterpreter(path: string): Promise<InterpreterFacts> {
  const output = await answerOf(path);
  const parsed = Facts.safeParse(parseJson(output));
  if (!parsed.success) {
    throw new CellaError(
      'PYTHON_NOT_FOUND',
      `${path} did not answer as a Python does: ${JSON.stringify(output.slice(0, 200))}.`,
    );
  }
  const { version } = parsed.data;
  if (version[0] < OLDEST[0] || (version[0] === OLDEST[0] && version[1] < OLDEST[1])) {
    const message = `${path} is Python ${version.join('.')}; ${OLDEST.join('.')} or later is needed.`;
    throw new CellaError('PYTHON_NOT_FOUND', message, { details: { path, version } });
  }
  return { ...parsed.data, packageFolders: parsed.data.packageFolders.filter(holdsPackagesOnly) };
}

/** A path file may name any folder. One that holds a home or the system is not shown to a sandbox for that. */
export function holdsPackagesOnly(folder: string): boolean {
  const wide = ['/boot', '/dev', '/etc', '/home', '/proc', '/root', '/run', '/sys', '/tmp', '/var', homedir()];
  return !wide.some((path) => `${path}/`.startsWith(`${folder.replace(/\/+$/, '')}/`));
}

async function answerOf(path: string): Promise<string> {
  try {
    return await runProgram(path, ['-I', '-X', 'utf8', '-c', FACTS_PROGRAM], ANSWER_MS);
  } catch (cause) {
    throw new CellaError('PYTHON_NOT_FOUND', `${path} could not be run as a Python: ${failureOf(cause)}.`, { cause });
  }
}

/** Why a program that was run by `runProgram` failed, in one line: its own last words where it has said any. */
export function failureOf(error: unknown): string {
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
