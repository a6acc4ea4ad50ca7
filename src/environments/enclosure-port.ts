/** What an enclosed environment needs of an enclosure; that of src/executors/contract.ts is one. */

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
  command(program: EnclosedProgram): Promise<EnclosedLink>;
  /** Why it could not be closed around its first process, if it could not. */
  readonly failure: Error | undefined;
  /** Whether it can still run something. */
  readonly alive: boolean;
  close(): Promise<void>;
}
