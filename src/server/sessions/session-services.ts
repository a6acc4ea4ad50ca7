/** What all sessions of a server share: the kernel pool, storage, limits, counters and hooks. */

import type { OnFailure } from '../../environments/files/remove-tree.ts';
import type { CodeRefusal } from '../../protocol/access-models.ts';
import type { NewFork } from '../../protocol/session-info.ts';
import type { KernelPool } from '../../session/kernel-pool.ts';
import type { SessionOptions } from '../../session/session-options.ts';
import type { Storage } from '../../storage/contract.ts';
import type { RecordLimits } from '../events/execution-recorder.ts';
import type { TurnRunner } from '../turns/session-turns.ts';
import type { IdempotencyLimits } from './idempotency.ts';
import type { OrphanedFiles } from './orphaned-files.ts';
import type { ServerSession } from './server-session.ts';
import type { SessionDefinition } from './session-definitions.ts';
import type { SessionManagerOptions } from './session-manager-options.ts';
import type { RetentionLimits } from './session-types.ts';

type KernelHooks = Required<Pick<SessionOptions, 'approve' | 'onProgress' | 'onRefused' | 'admitCall'>>;

export interface SessionServices {
  readonly pool: KernelPool;
  readonly storage: Storage;
  readonly dataDir: string;
  /** Defaults of every session. */
  readonly session: NonNullable<SessionManagerOptions['session']> & { readonly folderLinks: 'refused' };
  /** Set if other servers share the storage but not the data folder. */
  readonly leftovers: OrphanedFiles | undefined;
  readonly counters: Counters;
  readonly limits: RecordLimits;
  readonly requests: IdempotencyLimits;
  readonly retention: RetentionLimits;
  /** Whether a result is flushed to disk before callers get it. */
  readonly flushResults: boolean;
  /** How often open sessions are trimmed. */
  readonly sweepEveryMs: number;
  /** Sessions are closed after this time without use. */
  readonly closeAfterMs: number;
  /** Runs the turns of agents; undefined if this server has none. */
  readonly agents: TurnRunner | undefined;
  /** Whether the server is shutting down: nothing new starts. */
  readonly stopping: () => boolean;
  /** Called for leftovers of earlier sessions that could not be removed. */
  readonly onLeftover: OnFailure;
  /** The current version of a definition. Throws `NOT_FOUND` if it was deleted meanwhile. */
  readonly refetch: (definition: SessionDefinition) => Promise<SessionDefinition>;
  /** The callbacks of a session's kernels. */
  readonly kernelHooks: (definition: SessionDefinition) => KernelHooks;
  /** Called for what the code of a session tried and was refused. */
  readonly refused: (definition: SessionDefinition, refusal: CodeRefusal) => void;
  readonly fork: (id: string, wanted: NewFork) => Promise<ServerSession>;
  readonly delete: (id: string) => Promise<void>;
  /** Called for a session that another server has taken over. */
  readonly onOwnershipLost: (session: ServerSession) => void;
}

export interface Counters {
  events: number;
  eventsLost: number;
  appendFailures: number;
  readers: number;
  running: number;
  queued: number;
  /** Kernels that were reset or restarted by a caller. */
  restarts: number;
  /** By status. */
  readonly executions: Record<string, number>;
  /** Turns of agents, by status. */
  readonly turns: Record<string, number>;
  /** Called for each execution that has ended, with the time that it ran. */
  onEnded: (ending: string, ms: number) => void;
}

export function newCounters(): Counters {
  const none = { events: 0, eventsLost: 0, appendFailures: 0, readers: 0, running: 0, queued: 0, restarts: 0 };
  return { ...none, executions: {}, turns: {}, onEnded: () => {} };
}
