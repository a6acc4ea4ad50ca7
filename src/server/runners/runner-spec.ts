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

/** Operators can set all but `pingEveryMs`, `pingMs` and `graceMs`. */
export const RunnerSettings = z.strictObject({
  /** How many runners may live at once. Prompts beyond that wait for an idle one. */
  maxRunners: z.int().min(1).max(10_000).default(8),
  /** How long an idle runner is kept. */
  idleMs: ms.default(300_000),
  /** How long a runner may take to start, and to take a part of what its session needs before a turn. */
  startMs: ms.min(1).default(60_000),
  /** How often a runner is pinged, and how long it may take to answer, or to send a part of a transcript. */
  pingEveryMs: ms.min(10).default(15_000),
  pingMs: ms.min(10).default(15_000),
  /** How long a turn may take to stop. Then its runner is killed. */
  stopMs: ms.default(10_000),
  /** Between TERM and KILL. */
  graceMs: ms.default(2000),
  /** How long the token of a turn is valid, and for how many calls. Default: a day, unlimited. */
  tokenMs: z.int().min(1).optional(),
  tokenUses: z.int().min(1).optional(),
});
export type RunnerSettings = z.output<typeof RunnerSettings>;

/** The session of a runner, and what the runner is made from. */
export interface RunnerSpec {
  readonly info: SessionInfo;
  /** For an environment beside its kernel's. */
  readonly options: SessionOptions;
  /** Of a fork: the agent key whose workspace it uses. */
  readonly workspaceOf?: string | undefined;
  /** Logs a denied network access in the runner's environment, with the running turn. */
  tellDenied(attempt: DeniedAttempt, turn: string | undefined): void;
}
