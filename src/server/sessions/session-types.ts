/** The types that the rest of the server uses to work with sessions. Access rights are checked before these calls; an unknown id is `NOT_FOUND`. */

import type { Role } from '../../protocol/access-models.ts';
import type { ExecutionResult } from '../../protocol/execution-events.ts';
import type { TransactionPolicy } from '../../protocol/session-info.ts';
import type { PoolMetrics } from '../../session/kernel-pool.ts';

/** A user who sees their own sessions, and those shared with them or their role. */
export interface Viewer {
  readonly userId: string;
  readonly role: Role;
}

export interface ServerExecuteOptions {
  readonly timeoutMs?: number;
  readonly inputTimeoutMs?: number;
  readonly transaction?: TransactionPolicy;
  /** A retry with the same key waits for the first request, or gets its result. */
  readonly idempotencyKey?: string;
  /** Stops the code when it aborts. */
  readonly signal?: AbortSignal;
  /** The id of the user. */
  readonly by?: string;
}

/** An execution that was accepted. It runs when its turn comes, in the order in which they were accepted. */
export interface ExecutionHandle {
  readonly id: string;
  /** Whether an earlier request with the same Idempotency-Key started it. */
  readonly replayed: boolean;
  /** The sequence number of its `execution_started`, once its turn has come and the event is durable. */
  readonly started: Promise<number>;
  /** Resolves when the end is durable. Exceptions in the code are results, not rejections. */
  readonly outcome: Promise<ExecutionResult>;
}

export interface EventStreamOptions {
  /** 0, the default, starts with the oldest event. */
  readonly after?: number;
  /** Only events of this execution. */
  readonly execution?: string;
  /** Only events of this turn, to its end. */
  readonly turn?: string;
  readonly signal?: AbortSignal;
}

export interface OutputContent {
  readonly mediaType: string;
  /** Its size so far. */
  readonly bytes: number;
  /** From `offset` to its end at the time it was opened. */
  read(options?: { readonly offset?: number }): AsyncIterable<Uint8Array>;
}

export interface SessionMetrics {
  readonly pool: PoolMetrics;
  readonly running: number;
  readonly queued: number;
  /** Kernels that were reset or restarted by a caller. */
  readonly restarts: number;
  /** By status, or `failed` or `interrupted`. */
  readonly executions: Readonly<Record<string, number>>;
  /** Turns of agents, by status. */
  readonly turns: Readonly<Record<string, number>>;
  readonly events: number;
  readonly eventsLost: number;
  readonly appendFailures: number;
  readonly readers: number;
}

/** How much of a session's log is kept. */
export interface RetentionLimits {
  /** 0 means no limit, here and below. */
  readonly maxAgeMs: number;
  /** Of the events of one session, as JSON. */
  readonly maxBytes: number;
  /** Of the output files of one session. */
  readonly maxFileBytes: number;
}
