/** What a runner is made from, and the settings of all runners. */

import type { SessionInfo } from '../../protocol/session-info.ts';
import type { DeniedAttempt } from '../../sandbox/proxy/allow-list.ts';
import type { SessionOptions } from '../../session/session-options.ts';
import type { ServerConfig } from '../../settings/server-config.ts';

/** The settings of all runners: those of the operator, and times that only tests change. */
export type RunnerSettings = ServerConfig['runners'] & {
  /** How often a runner is pinged, and how long it may take to answer, or to send a part of a transcript. */
  readonly pingEveryMs: number;
  readonly pingMs: number;
  /** Between TERM and KILL. */
  readonly graceMs: number;
};

export const runnerTimes = { pingEveryMs: 15_000, pingMs: 15_000, graceMs: 2000 };

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
