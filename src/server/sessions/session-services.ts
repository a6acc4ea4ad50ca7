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
  /** For every session, beneath its own settings. */
  readonly session: NonNullable<SessionManagerOptions['session']> & { readonly folderLinks: 'refused' };
  /** Where others share the storage, and not the data folder. */
  readonly leftovers: OrphanedFiles | undefined;
  readonly counters: Counters;
  readonly limits: RecordLimits;
  readonly requests: IdempotencyLimits;
  readonly retention: RetentionLimits;
  /** Idle kernels are put to sleep after this long; 0 means never. */
  readonly idleTtlMs: number;
  /** Whether a result is flushed to the disk before it is told. */
  readonly flushResults: boolean;
  /** How often retention is looked after. */
  readonly sweepEveryMs: number;
  /** Sessions that nobody has used for this long are closed. */
  readonly closeAfterMs: number;
  /** Runs the turns of agents; undefined where this server has none. */
  readonly agents: TurnRunner | undefined;
  /** Whether the server is going down: nothing new begins. */
  readonly stopping: () => boolean;
  /** Told of what earlier sessions have left and that could not be removed yet. */
  readonly onLeftover: OnFailure;
  /** A definition as it is by now; `NOT_FOUND` where it is gone meanwhile. */
  readonly refetch: (definition: SessionDefinition) => Promise<SessionDefinition>;
  /** What a kernel asks and tells its session. */
  readonly kernelHooks: (definition: SessionDefinition) => KernelHooks;
  /** Told of what the code of a session tried and was refused. */
  readonly refused: (definition: SessionDefinition, refusal: CodeRefusal) => void;
  readonly fork: (id: string, wanted: NewFork) => Promise<ServerSession>;
  readonly delete: (id: string) => Promise<void>;
  /** Told of a session that another server has taken over. */
  readonly onOwnershipLost: (session: ServerSession) => void;
}

export interface Counters {
  events: number;
  eventsLost: number;
  appendFailures: number;
  readers: number;
  running: number;
  queued: number;
  /** Kernels that somebody had reset or restarted. */
  restarts: number;
  /** By how they ended. */
  readonly executions: Record<string, number>;
  /** Of agents, by how they ended. */
  readonly turns: Record<string, number>;
  /** Told of each execution that has ended, with the time since its turn came. */
  onEnded: (ending: string, ms: number) => void;
}

export function newCounters(): Counters {
  const none = { events: 0, eventsLost: 0, appendFailures: 0, readers: 0, running: 0, queued: 0, restarts: 0 };
  return { ...none, executions: {}, turns: {}, onEnded: () => {} };
}
