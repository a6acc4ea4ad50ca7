/** What an enclosed environment needs of an enclosure; one that src/session/agent-enclosure.ts opens is one. */

import type { FilesRoot } from './files/files.ts';

export interface ByteSource {
  /** A chunk is only valid during the call. Returning false stops reading until `resume`. */
  read(onChunk: (chunk: Buffer) => boolean, onEnd: () => void): void;
  resume(): void;
  close(): void;
}

export interface ByteSink {
  /** Resolves when there is room for more, or nobody to read it. */
  write(bytes: Uint8Array): Promise<void>;
  end(): void;
}

export interface EnclosedProgram {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly stdin?: 'open' | undefined;
}

export interface EnclosedExit {
  readonly signal?: string;
  readonly exitCode?: number;
  readonly outOfMemory: boolean;
  /** The enclosure as a whole has ended. */
  readonly lost?: string;
  /** It never began. */
  readonly problem?: string;
}

export interface EnclosedLink {
  readonly stdin: ByteSink | undefined;
  readonly stdout: ByteSource;
  readonly stderr: ByteSource;
  kill(options?: { readonly graceMs?: number }): void;
  readonly exited: Promise<EnclosedExit>;
}

export interface EnclosurePort {
  readonly kind: 'sandbox' | 'docker';
  /** As they are inside. */
  readonly paths: { readonly app: string; readonly workspace: string; readonly home: string };
  /** The same two, on the host. */
  readonly onHost: { readonly workspace: string; readonly home: string };
  /** How their files are reached there. */
  readonly files: { readonly workspace: FilesRoot; readonly home: FilesRoot };
  /** Whether it can still run something. */
  readonly alive: boolean;
  /** Why it could not be closed around its first process, if it could not: nothing has begun in it. */
  readonly failure?: Error | undefined;
  command(program: EnclosedProgram): Promise<EnclosedLink>;
  close(): Promise<void>;
}
