/** The port of an environment, a place with processes and files, and what all environments share: handles, checks, running programs. */

import { randomUUID } from 'node:crypto';
import type { Readable, Writable } from 'node:stream';
import { z } from 'zod';
import { onAbort } from '../lib/abort.ts';
import { CellaError } from '../protocol/errors.ts';
import type { ProcessExit } from '../protocol/process.ts';
import { EnvironmentFiles, EnvironmentFolders, type EnvironmentRoots } from './files/environment-files.ts';

export interface BasePaths {
  /** The runner and the programs of agents; not to be written to. */
  readonly APP_DIR: string;
  readonly WORKSPACE_DIR: string;
  readonly HOME_DIR: string;
  readonly BUNDLED_MCP_DIR: string;
}

export interface ExecOptions {
  /** As the environment sees it; the workspace by default. */
  readonly cwd?: string;
  /** All variables that there are, beside those that every program of this environment has. */
  readonly env?: Readonly<Record<string, string>>;
  /** `pipe` gives a stream to write to; text and bytes are written and the stream ended. Without it, it is empty. */
  readonly stdin?: 'pipe' | string | Uint8Array;
  readonly signal?: AbortSignal;
}

export interface Process {
  readonly stdin: Writable | undefined;
  /** Output is kept until it is read. Destroy the stream if you do not want to read it. */
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Rejects only where it never began. */
  readonly exited: Promise<ProcessExit>;
  /** The whole tree: TERM, then KILL after a grace period. */
  kill(options?: { readonly graceMs?: number }): void;
}

export interface FileEntry {
  /** Relative to the folder that was listed, with `/`. */
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
export interface FileChange {
  /** Relative to the folder that is watched. */
  readonly path: string;
  readonly change: 'created' | 'modified' | 'deleted' | 'overflow';
}

/** JSON by which another process finds the environment again. It names folders of the host, so do not give it to clients. */
export interface EnvironmentHandle {
  readonly kind: string;
  readonly id: string;
  readonly [field: string]: unknown;
}

/** Paths are absolute as the environment sees them, or relative to the workspace; nothing outside its folders is reached. */
export interface Environment extends AsyncDisposable {
  readonly kind: 'local' | 'sandbox' | 'docker';
  /** Whether what runs in it is kept from the host: `bypass` is refused where it is not. */
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
  /** Links are listed, and never followed. `pattern` is a glob: `*`, `**`, `?`, `{a,b}`; without it, all below. */
  listFiles(path: string, pattern?: string): Promise<readonly FileEntry[]>;
  /** Resolves when it watches: of what changes after that, nothing is missed. Ends with the signal or the loop. */
  watch(path: string, options?: { readonly signal?: AbortSignal }): Promise<AsyncIterable<FileChange>>;
  isRunning(): Promise<boolean>;
  /** Undefined while it runs, else how it ended. An environment that was attached by its handle starts with the first `exec`. */
  poll(): Promise<{ readonly reason: string } | undefined>;
  /** Ends all that runs in it; its files stay. */
  terminate(): Promise<void>;
}

const Handle = z.strictObject({
  kind: z.enum(['local', 'sandbox', 'docker']),
  id: z.string().regex(/^env_[0-9a-f-]{36}$/),
  folders: EnvironmentFolders,
});
type Handle = z.infer<typeof Handle>;

export const newEnvironmentId = (): string => `env_${randomUUID()}`;

/** `kind`: what it must be of. */
export function readHandle(input: unknown, kinds: readonly Handle['kind'][]): Handle {
  const parsed = Handle.safeParse(input);
  if (parsed.success && kinds.includes(parsed.data.kind)) return parsed.data;
  const why = parsed.success ? `it is one of ${parsed.data.kind}` : z.prettifyError(parsed.error);
  throw new CellaError('INVALID_OPTIONS', `This is no handle of such an environment: ${why}.`);
}

export const RESTARTED = 'the process that had it has ended, and with it all that ran';
export const TERMINATED = 'it was terminated';

/** Between TERM and KILL. */
export const GRACE_MS = 2000;

/** What every program sees, where nothing else is said. */
export const DEFAULT_ENV: Readonly<Record<string, string>> = {
  PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  LANG: 'C.UTF-8',
};

/** What no system takes is refused the same everywhere. */
export function checkProgram(argv: readonly string[], env: Readonly<Record<string, string>> = {}): void {
  if (argv.length === 0 || argv[0] === '') throw new CellaError('EXEC_FAILED', 'No program was named.');
  if (argv.some((word) => word.includes('\0'))) throw new CellaError('EXEC_FAILED', 'An argument holds a null byte.');
  for (const [name, value] of Object.entries(env)) {
    if (name === '' || /[=\0]/.test(name) || value.includes('\0')) {
      throw new CellaError('EXEC_FAILED', `${JSON.stringify(name.slice(0, 80))} cannot be a variable.`);
    }
  }
}

/** Text and bytes are written and the input ended; only a pipe is handed on. */
export function writeStdin(input: Writable | undefined, stdin: ExecOptions['stdin']): Writable | undefined {
  if (!input) return undefined;
  // A program need not read all that it is given.
  input.on('error', () => {});
  if (stdin === 'pipe') return input;
  input.end(stdin);
  return undefined;
}

/** What all environments share: identity, files, and the processes that run in them. */
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

  /** Kills it when the signal aborts; `endProcesses` ends it, too. */
  protected track(process: Process, signal: AbortSignal | undefined): Process {
    this.#processes.add(process);
    // It may have been aborted while the program started.
    const aborting = onAbort(signal, () => process.kill());
    const over = () => {
      this.#processes.delete(process);
      aborting[Symbol.dispose]();
    };
    process.exited.then(over, over);
    return process;
  }

  /** Asks all of them to end, and waits until they have. */
  protected async endProcesses(): Promise<void> {
    const all = [...this.#processes];
    for (const process of all) process.kill();
    await Promise.allSettled(all.map(({ exited }) => exited));
  }

  protected endedError(reason: string, cause?: unknown): CellaError {
    return new CellaError('ENVIRONMENT_ENDED', `The environment ${this.id} has ended: ${reason}.`, { cause });
  }
}
