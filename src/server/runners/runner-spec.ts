/** What a runner is made from, and the settings of all runners. */

import { z } from 'zod';
import type { SessionInfo } from '../../protocol/session-info.ts';
import type { DeniedAttempt } from '../../sandbox/proxy/allow-list.ts';
import type { SessionOptions } from '../../session/session-options.ts';

const HOUR_MS = 3_600_000;
const ms = z
  .int()
  .min(0)
  .max(24 * HOUR_MS);

/** `pingEveryMs`, `pingMs` and `graceMs` nobody has a reason to set; the others are an operator's. */
export const RunnerSettings = z.strictObject({
  /** How many executors may live at once; a prompt beyond it waits for one that is idle, or ends. */
  maxWorkers: z.int().min(1).max(10_000).default(8),
  /** How long an executor without a turn is kept for the next one. */
  idleMs: ms.default(300_000),
  /** How long one may take to be there. */
  startMs: ms.min(1).default(60_000),
  /** How often it is asked whether it is well, and how long it has to say so, and for each part of a conversation. */
  pingEveryMs: ms.min(10).default(15_000),
  pingMs: ms.min(10).default(15_000),
  /** How long a turn has to end after it was told to; then its executor is ended. */
  stopMs: ms.default(10_000),
  /** Between TERM and KILL. */
  graceMs: ms.default(2000),
  /** How long the token of a turn is good, and for how many calls; a day, and any number of them. */
  tokenMs: z.int().min(1).optional(),
  tokenUses: z.int().min(1).optional(),
});
export type RunnerSettings = z.output<typeof RunnerSettings>;

/** Whose executor it is, and what it is made from. */
export interface RunnerSpec {
  readonly info: SessionInfo;
  /** For a place beside its kernel's. */
  readonly options: SessionOptions;
  /** The agent in whose folder it works, where it is a fork. */
  readonly workspaceOf?: string | undefined;
  /** Writes into its log what something in the executor's place tried to reach, and may not; with the turn that ran then. */
  tellDenied(attempt: DeniedAttempt, turn: string | undefined): void;
}
