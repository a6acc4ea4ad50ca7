/**
 * The port of an environment, a place with processes and files, and what works the same in all: handles, checks, running programs,
 * and the files of a profile.
 */

import { randomUUID } from 'node:crypto';
import { basename, dirname } from 'node:path/posix';
import type { Readable, Writable } from 'node:stream';
import { z } from 'zod';
import { onAbort } from '../lib/abort.ts';
import type { AgentProfile } from '../protocol/agent-profile.ts';
import { CellaError } from '../protocol/errors.ts';
import { describeProblems } from '../protocol/parse.ts';
import type { ProcessExit } from '../protocol/process.ts';
import type { PermissionMode } from '../protocol/turn.ts';
import { EnvironmentFiles, EnvironmentFolders, type EnvironmentRoots } from './files/environment-files.ts';

export interface BasePaths {
  /** The folder of the runner and the agents' programs. Do not write to it. */
  readonly APP_DIR: string;
  readonly WORKSPACE_DIR: string;
  readonly HOME_DIR: string;
  readonly BUNDLED_MCP_DIR: string;
}

export interface ExecOptions {
  /** A path in the environment. Defaults to the workspace. */
  readonly cwd?: string;
  /** All variables of the program, in addition to those that every program of this environment has. */
  readonly env?: Readonly<Record<string, string>>;
  /** `pipe` returns a stream to write to. Text or bytes are written and the input closed. By default the input is empty. */
  readonly stdin?: 'pipe' | string | Uint8Array;
  readonly signal?: AbortSignal;
}

export interface Process {
  readonly stdin: Writable | undefined;
  /**
   * Output is kept until it is read. Destroy the stream if you do not want to read it. It ends soon after the exit, even if
   * another process keeps it open silently.
   */
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Rejects only if the program never started. */
  readonly exited: Promise<ProcessExit>;
  /** Ends the whole process tree: TERM, then KILL after a grace period. */
  kill(options?: { readonly graceMs?: number }): void;
}

export interface FileEntry {
  /** Relative to the listed folder, with `/` as separator. */
  readonly path: string;
  readonly type: 'file' | 'folder' | 'link' | 'other';
  readonly bytes: number;
  readonly modifiedAt: number;
}

export interface FileWrite {
  readonly path: string;
  readonly content: string | Uint8Array;
}

export type FileWritten =
  | { readonly path: string; readonly ok: true }
  | { readonly path: string; readonly ok: false; readonly error: Error };

/** `overflow`: there were too many changes to report, or too many folders to watch. List the files again. */
export interface EnvironmentFileChange {
  /** Relative to the watched folder. */
  readonly path: string;
  readonly change: 'created' | 'modified' | 'deleted' | 'overflow';
}

/** JSON with which another process can find the environment again. It contains host paths, so do not give it to clients. */
export interface EnvironmentHandle {
  readonly kind: string;
  readonly id: string;
  readonly [field: string]: unknown;
}

/**
 * Paths are absolute as seen in the environment, or relative to the workspace. Files outside its folders are not accessible.
 */
export interface Environment extends AsyncDisposable {
  readonly kind: 'local' | 'sandbox' | 'docker';
  /** Whether the environment isolates its programs from the host. If not, `bypass` is refused. */
  readonly isolated: boolean;
  getId(): string;
  getBasePaths(): BasePaths;
  handle(): EnvironmentHandle;
  exec(argv: readonly string[], options?: ExecOptions): Promise<Process>;
  /** Rejects with `NOT_FOUND` if there is no such file. */
  readFile(path: string): Promise<string>;
  readBytes(path: string): Promise<Uint8Array>;
  writeFile(path: string, content: string | Uint8Array): Promise<void>;
  writeFiles(files: readonly FileWrite[]): Promise<readonly FileWritten[]>;
  /**
   * Lists links without following them. `pattern` is a glob (`*`, `**`, `?`, `{a,b}`); without it, lists everything below
   * `path`.
   */
  listFiles(path: string, pattern?: string): Promise<readonly FileEntry[]>;
  /** Resolves once the watch is active; no later change is missed. Ends with the signal or the loop. */
  watch(path: string, options?: { readonly signal?: AbortSignal }): Promise<AsyncIterable<EnvironmentFileChange>>;
  isRunning(): Promise<boolean>;
  /**
   * Undefined while the environment runs, otherwise why it ended. An environment attached by its handle starts with the first
   * `exec`.
   */
  poll(): Promise<{ readonly reason: string } | undefined>;
  /** Ends all its processes; its files stay. */
  terminate(): Promise<void>;
}

const Handle = z.strictObject({
  kind: z.enum(['local', 'sandbox', 'docker']),
  id: z.string().regex(/^env_[0-9a-f-]{36}$/),
  folders: EnvironmentFolders,
});
type Handle = z.infer<typeof Handle>;

export const newEnvironmentId = (): string => `env_${randomUUID()}`;

/** `kinds` are the accepted kinds of environments. */
export function readHandle(input: unknown, kinds: readonly Handle['kind'][]): Handle {
  const parsed = Handle.safeParse(input);
  if (parsed.success && kinds.includes(parsed.data.kind)) return parsed.data;
  const why = parsed.success ? `it belongs to the kind ${parsed.data.kind}` : describeProblems(parsed.error).join('; ');
  throw new CellaError('INVALID_OPTIONS', `This is not a valid handle: ${why}.`);
}

export const RESTARTED = 'the process that owned this environment has ended, and everything in it';
export const TERMINATED = 'it was terminated';

/** The time between TERM and KILL. */
export const GRACE_MS = 2000;

/** The default variables of every program. */
export const DEFAULT_ENV: Readonly<Record<string, string>> = {
  PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  LANG: 'C.UTF-8',
};

/** Refuses, in all environments alike, what no operating system accepts. */
export function checkProgram(argv: readonly string[], env: Readonly<Record<string, string>> = {}): void {
  if (argv.length === 0 || argv[0] === '') throw new CellaError('EXEC_FAILED', 'No program was named.');
  if (argv.some((word) => word.includes('\0'))) throw new CellaError('EXEC_FAILED', 'An argument holds a null byte.');
  for (const [name, value] of Object.entries(env)) {
    if (name === '' || /[=\0]/.test(name) || value.includes('\0')) {
      throw new CellaError('EXEC_FAILED', `${JSON.stringify(name.slice(0, 80))} cannot be a variable.`);
    }
  }
}

/** Writes text or bytes and closes the input. Returns the stream only for a pipe. */
export function writeStdin(input: Writable | undefined, stdin: ExecOptions['stdin']): Writable | undefined {
  if (!input) return undefined;
  // A program does not have to read all of its input.
  input.on('error', () => {});
  if (stdin === 'pipe') return input;
  input.end(stdin);
  return undefined;
}

/** What all environments share: identity, files, and running processes. */
export abstract class BaseEnvironment extends EnvironmentFiles implements Environment {
  abstract readonly kind: Environment['kind'];
  abstract readonly isolated: boolean;
  protected readonly id: string;
  readonly #processes = new Set<Process>();

  protected constructor(id: string, folders: EnvironmentFolders, roots: EnvironmentRoots) {
    super(folders, roots);
    this.id = id;
  }

  abstract exec(argv: readonly string[], options?: ExecOptions): Promise<Process>;
  abstract poll(): Promise<{ readonly reason: string } | undefined>;
  abstract terminate(): Promise<void>;

  getId(): string {
    return this.id;
  }

  handle(): EnvironmentHandle {
    return { kind: this.kind, id: this.id, folders: this.folders };
  }

  async isRunning(): Promise<boolean> {
    return (await this.poll()) === undefined;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.terminate();
  }

  /** Kills the process when the signal aborts, or on `endProcesses`. */
  protected track(process: Process, signal: AbortSignal | undefined): Process {
    this.#processes.add(process);
    // The signal may have aborted while the program was starting.
    const aborting = onAbort(signal, () => process.kill());
    const over = () => {
      this.#processes.delete(process);
      aborting[Symbol.dispose]();
    };
    process.exited.then(over, over);
    return process;
  }

  /** Asks all processes to end and waits until they have. */
  protected async endProcesses(): Promise<void> {
    const all = [...this.#processes];
    for (const process of all) process.kill();
    await Promise.allSettled(all.map(({ exited }) => exited));
  }

  protected endedError(reason: string, cause?: unknown): CellaError {
    return new CellaError('ENVIRONMENT_ENDED', `The environment ${this.id} has ended: ${reason}.`, { cause });
  }
}

/** Throws `BYPASS_REFUSED` if an agent that never asks could do anything to the machine. */
export function checkMode(
  mode: PermissionMode,
  environment: { readonly kind: string; readonly isolated: boolean },
): void {
  if (mode !== 'bypass' || environment.isolated) return;
  const { kind } = environment;
  throw new CellaError('BYPASS_REFUSED', `The mode bypass needs an isolated environment; ${kind} is not isolated.`, {
    details: { mode, environment: kind },
  });
}

/** Writes the files of a profile that the workspace does not have yet. */
export async function writeMissingFiles(
  environment: Pick<Environment, 'listFiles' | 'writeFiles'>,
  { files = {} }: AgentProfile,
): Promise<readonly FileWritten[]> {
  const written: FileWritten[] = [];
  const missing: FileWrite[] = [];
  const byFolder = Map.groupBy(Object.entries(files), ([path]) => dirname(path));
  for (const [folder, inFolder] of byFolder) {
    const names = await namesIn(environment, folder).catch(asCellaError);
    for (const [path, content] of inFolder) {
      // A folder that cannot be listed may have the file.
      if (names instanceof CellaError) written.push({ path, ok: false, error: names });
      else if (!names.has(basename(path))) missing.push({ path, content: contentOf(content) });
    }
  }
  return [...written, ...(await environment.writeFiles(missing))];
}

function contentOf(content: NonNullable<AgentProfile['files']>[string]): string | Uint8Array {
  return typeof content === 'string' ? content : Buffer.from(content.base64, 'base64');
}

async function namesIn(environment: Pick<Environment, 'listFiles'>, folder: string): Promise<Set<string>> {
  try {
    return new Set((await environment.listFiles(folder, '*')).map(({ path }) => path));
  } catch (error) {
    if (error instanceof CellaError && error.code === 'NOT_FOUND') return new Set();
    throw error;
  }
}

function asCellaError(error: unknown): CellaError {
  if (error instanceof CellaError) return error;
  throw error;
}
