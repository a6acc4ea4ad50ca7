/** How a process ended, and how to run a program to its end. */

import type { ProcessEnd, ProcessResult } from '../lib/run-process.ts';

export type ProcessExit = ProcessEnd & {
  /** Set if its environment had used up its memory. */
  readonly outOfMemory?: boolean | undefined;
  /** Why its environment ended, if that ended the process. */
  readonly environmentEnded?: string | undefined;
};

/** A program to run to its end: argv, never a shell, with its input closed. */
export interface Command {
  /** The program, looked up on PATH, and its arguments. */
  readonly argv: readonly string[];
  /** Variables in addition to those of every process in the environment. */
  readonly env?: Readonly<Record<string, string>>;
  /** Cella kills the program and everything that it has started after this time. */
  readonly timeoutMs: number;
  /** How many bytes of stdout and of stderr to keep. The rest is read, counted and dropped. */
  readonly outputLimitBytes: number;
  readonly signal?: AbortSignal;
}

export type CommandResult = ProcessResult<ProcessExit>;

/** A place where programs can run. If a program cannot be started, `run` throws TOOL_FAILED with the reason. */
export interface CommandRunner {
  run(command: Command): Promise<CommandResult>;
}
