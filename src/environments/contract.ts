/** EnvironmentPrimitive: a place with processes and files, whatever stands between it and the host. */

import type { Readable, Writable } from 'node:stream';

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

/** How a program ended: one of both. */
export type ExecExit =
  | { readonly code: number; readonly signal?: undefined; readonly outOfMemory?: undefined }
  | {
      readonly signal: string;
      readonly code?: undefined;
      /** It was ended because the memory that the place may have was used up. */
      readonly outOfMemory?: true;
    };

export interface Execution {
  readonly stdin: Writable | undefined;
  /** Whoever does not want to read an output destroys it: until then it is kept. */
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Rejects only where it never began. */
  readonly exited: Promise<ExecExit>;
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

/** `overflow`: more has happened than can be told, or there are more folders than are watched: list again. */
export interface FileChange {
  /** Relative to the folder that is watched. */
  readonly path: string;
  readonly change: 'created' | 'modified' | 'deleted' | 'overflow';
}

/** JSON: what another process needs to find the environment again. It names folders of the host: not for strangers. */
export interface EnvironmentHandle {
  readonly kind: string;
  readonly id: string;
  readonly [field: string]: unknown;
}

/** Paths are absolute as the environment sees them, or relative to the workspace; nothing outside its folders is reached. */
export interface EnvironmentPrimitive extends AsyncDisposable {
  readonly kind: 'local' | 'sandbox' | 'docker';
  /** Whether what runs in it is kept from the host: `bypass` is refused where it is not. */
  readonly isolated: boolean;
  getId(): string;
  getBasePaths(): BasePaths;
  handle(): EnvironmentHandle;
  exec(argv: readonly string[], options?: ExecOptions): Promise<Execution>;
  /** `NOT_FOUND` where there is none; an empty file is empty. */
  readFile(path: string): Promise<string>;
  readBytes(path: string): Promise<Uint8Array>;
  writeFile(path: string, content: string | Uint8Array): Promise<void>;
  writeFiles(files: readonly FileWrite[]): Promise<readonly FileWritten[]>;
  /** Links are listed, and never followed. `pattern` is a glob: `*`, `**`, `?`, `{a,b}`; without it, all below. */
  listFiles(path: string, pattern?: string): Promise<readonly FileEntry[]>;
  /** Resolves when it watches: of what changes after that, nothing is missed. Ends with the signal or the loop. */
  watch(path: string, options?: { readonly signal?: AbortSignal }): Promise<AsyncIterable<FileChange>>;
  isRunning(): Promise<boolean>;
  /** Undefined while it runs, else how it ended. One that was found again by its handle begins anew with `exec`. */
  poll(): Promise<{ readonly reason: string } | undefined>;
  /** Ends all that runs in it; its files stay. */
  terminate(): Promise<void>;
}
