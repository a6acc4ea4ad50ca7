/** How a process ended, and programs that are run to their end. */

import type { ProcessEnd, ProcessResult } from '../lib/run-process.ts';

export type ProcessExit = ProcessEnd & {
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

export type CommandResult = ProcessResult<ProcessExit>;

/** Somewhere that commands can run. A program that cannot be started is a CellaError with the reason (TOOL_FAILED). */
export interface CommandRunner {
  run(command: Command): Promise<CommandResult>;
}
