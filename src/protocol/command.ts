/** A program that is run to its end: argv, never a shell, with its input closed. */

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
  /** One of both, where it came to an end by itself. */
  readonly exitCode?: number;
  /** By name: `SIGKILL`. */
  readonly killedBy?: string;
  readonly timedOut: boolean;
}

/** Somewhere that commands can run. A program that cannot be started is a CellaError with the reason (TOOL_FAILED). */
export interface CommandRunner {
  run(command: Command): Promise<CommandResult>;
}
