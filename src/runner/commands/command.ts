/** What every command of the runner is given. */

import type { AgentSource } from '../agents.ts';
import type { JsonOutput } from './io.ts';

export interface CommandParts {
  readonly lines: AsyncGenerator<unknown>;
  readonly output: JsonOutput;
  readonly agents: AgentSource;
  /** Aborted where the runner is told to end. */
  readonly stop: AbortSignal;
}

/** Resolves with the exit code. What it rejects with is told in the last line. */
export type Command = (parts: CommandParts) => Promise<number>;
