/** The types that the rest of the server uses to work with sessions. Access rights are checked before these calls; an unknown id is `NOT_FOUND`. */

import type { Role } from '../../protocol/access-models.ts';
import type { ExecutionResult } from '../../protocol/execution-events.ts';
import type { TransactionPolicy } from '../../protocol/session-info.ts';
import type { PoolMetrics } from '../../session/kernel-pool.ts';

export type { ServerSession } from './server-session.ts';
export type { SessionManager } from './session-manager.ts';

/** Somebody who sees their own sessions, and those shared with them or their role. */
export interface Viewer {
  readonly userId: string;
  readonly role: Role;
}

export interface ServerExecuteOptions {
  readonly timeoutMs?: number;
  readonly inputTimeoutMs?: number;
  readonly transaction?: TransactionPolicy;
  /** The same text twice runs the code once: a retry waits for it, or gets what it gave. */
  readonly idempotencyKey?: string;
  /** Stops the code: only for a caller who wants that when he goes. */
  readonly signal?: AbortSignal;
  /** The id of the user who asks. */
  readonly by?: string;
}

export interface AcceptedExecution {
  readonly execution: string;
  /** Whether another request with the same key has brought it. */
  readonly joined: boolean;
  /** The number of its `execution_started`, when its turn has come. */
  readonly started: Promise<number>;
  readonly outcome: Promise<ExecutionOutcome>;
}

export interface StartedExecution {
  readonly execution: string;
  /** The number of its `execution_started`. */
  readonly firstSeq: number;
  /** Whether another request with the same key has started it. */
  readonly joined: boolean;
  readonly outcome: Promise<ExecutionOutcome>;
}

export interface ExecutionOutcome {
  readonly execution: string;
  readonly firstSeq: number;
  /** Whether another request with the same key has run it. */
  readonly joined: boolean;
  readonly result: ExecutionResult;
}

export interface EventStreamOptions {
  /** 0, the default, begins with the first that there is. */
  readonly after?: number;
  /** Events of this execution alone. */
  readonly execution?: string;
  /** Events of this turn alone, to its end. */
  readonly turn?: string;
  readonly signal?: AbortSignal;
}

export interface OutputContent {
  readonly mediaType: string;
  /** So far. */
  readonly bytes: number;
  /** From `offset` to what there was when it was opened. */
  read(options?: { readonly offset?: number }): AsyncIterable<Uint8Array>;
}

export interface SessionMetrics {
  readonly pool: PoolMetrics;
  readonly running: number;
  readonly queued: number;
  /** Kernels that somebody had reset or restarted. */
  readonly restarts: number;
  /** By how they ended: a status, `failed` or `interrupted`. */
  readonly executions: Readonly<Record<string, number>>;
  /** Of agents, by how they ended. */
  readonly turns: Readonly<Record<string, number>>;
  readonly events: number;
  readonly eventsLost: number;
  readonly appendFailures: number;
  readonly readers: number;
}

/** How much of a log stays. */
export interface RetentionLimits {
  /** 0 means for ever, here and below. */
  readonly maxAgeMs: number;
  /** Of the events of one session, as JSON. */
  readonly maxBytes: number;
  /** Of the files of one session with what was too large for an event. */
  readonly maxFileBytes: number;
}
