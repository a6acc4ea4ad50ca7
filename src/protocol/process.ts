/** How a process ended, and programs that are run to their end. */

export type ProcessExit = (
  | { readonly code: number; readonly signal?: undefined }
  /** By name: `SIGKILL`. */
  | { readonly signal: string; readonly code?: undefined }
) & {
  /** The memory that its environment may use was used up. */
  readonly outOfMemory?: boolean | undefined;
  /** Why its environment ended, and the process with it. */
  readonly environmentEnded?: string | undefined;
};

/** A program to run to its end: argv, never a shell, with its input closed. */
export interface Command {
  /** The program, looked up on PATH, and its arguments. */
  readonly argv: readonly string[];
  /** Variables beside those that every process there has. */
  readonly env?: Readonly<Record<string, string>>;
  /** Ended, with everything that it has started, after this long. */
  readonly timeoutMs: number;
  /** How much of stdout and of stderr is kept, each. What is over is read, counted and dropped. */
  readonly outputLimitBytes: number;
  readonly signal?: AbortSignal;
}

export interface CommandResult {
  readonly stdout: Buffer;
  readonly stderr: Buffer;
  /** Bytes that were dropped. */
  readonly stdoutCut: number;
  readonly stderrCut: number;
  readonly exit: ProcessExit;
  readonly timedOut: boolean;
}

/** Somewhere that commands can run. A program that cannot be started is a CellaError with the reason (TOOL_FAILED). */
export interface CommandRunner {
  run(command: Command): Promise<CommandResult>;
}
