/**
 * The types that the rest of the server uses to work with sessions: a session, the options of the manager, and what all
 * sessions share.
 */

import { z } from 'zod';
import type { OnFailure } from '../../environments/files/remove-tree.ts';
import type { CodeRefusal, Role } from '../../protocol/access-models.ts';
import type { ExecutionResult } from '../../protocol/execution-events.ts';
import { parseOptions } from '../../protocol/parse.ts';
import type { NewFork, SessionInfo, SessionSettings } from '../../protocol/session-info.ts';
import type { ExecuteOptions } from '../../session/api.ts';
import { dataFolder } from '../../session/data-folders.ts';
import { type KernelPool, PoolLimits, type PoolMetrics } from '../../session/kernel-pool.ts';
import type { SessionOptions } from '../../session/session-options.ts';
import { serverDefaults } from '../../settings/server-config.ts';
import type { Storage } from '../../storage/contract.ts';
import type { AuditLog } from '../access/audit-log.ts';
import type { ByteLimit } from '../request-limits.ts';
import type { TurnRunner } from '../turns/session-turns.ts';
import type { UnreadData } from '../unread-limit.ts';
import type { ServerSession } from './server-session.ts';
import type { SessionDefinition } from './session-definitions.ts';
import type { OrphanedFiles } from './session-deletion.ts';

/** A user who sees their own sessions, and those shared with them or their role. */
export interface Viewer {
  readonly userId: string;
  readonly role: Role;
}

export interface ServerExecuteOptions extends ExecuteOptions {
  /** A retry with the same key waits for the first request, or gets its result. */
  readonly idempotencyKey?: string;
  /** The id of the user. */
  readonly by?: string;
}

/** An accepted execution. Executions run in the order in which they were accepted. */
export interface ExecutionHandle {
  readonly id: string;
  /** Whether an earlier request with the same Idempotency-Key started it. */
  readonly replayed: boolean;
  /** The sequence number of its `execution_started`, once its turn has come and the event is durable. */
  readonly started: Promise<number>;
  /** Whether it ended before, with a result in a file, which is read when `outcome` is first used. It may be large. */
  readonly isStored: boolean;
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
  /** Where to count the part of the log that is in memory while a slow reader takes it. */
  readonly memory?: Pick<UnreadData, 'reserve'>;
}

export interface OutputContent {
  readonly mediaType: string;
  /** Its size so far. */
  readonly bytes: number;
  /** From `offset` to its end at the time it was opened. */
  read(options?: { readonly offset?: number }): AsyncIterable<Uint8Array>;
}

/** The counters of this server, and the metrics of its kernels. */
export type SessionMetrics = Readonly<Omit<Counters, 'onEnded'>> & { readonly pool: PoolMetrics };

const KB = 1024;
const MB = 1024 * KB;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

const count = z.int().min(0).max(Number.MAX_SAFE_INTEGER);

const { retention, flushResults } = serverDefaults;

const SessionManagerLimits = z.object({
  pool: PoolLimits.omit({ idleMs: true }).prefault({}),
  /** Idle kernels are hibernated after this long; 0 means never. */
  idleMs: PoolLimits.shape.idleMs,
  limits: z
    .strictObject({
      /** Larger events become a file that the event names. */
      eventBytes: count.min(1024).default(256 * KB),
      /** How much output of one execution becomes events; the rest goes to files. */
      inlineBytes: count.default(8 * MB),
      /** The largest file of one output stream. */
      fileBytes: count.default(1024 * MB),
    })
    .prefault({}),
  /** How long Idempotency-Keys are kept, and how many per session. */
  requests: z.strictObject({ maxAgeMs: count.default(DAY_MS), maxCount: count.default(1000) }).prefault({}),
  /** How much of each session's log and of its output files is kept; 0 means all. */
  retention: z
    .strictObject({
      maxAgeMs: count.default(retention.maxAgeMs),
      /** Of the events, as JSON. */
      maxBytes: count.default(retention.maxBytes),
      /** Of the output files. */
      maxFileBytes: count.default(retention.maxFileBytes),
    })
    .prefault({}),
  /** Whether a result survives a power failure before callers get it. Otherwise it survives the end of the server. */
  flushResults: z.boolean().default(flushResults),
  /** How often open sessions are trimmed. */
  sweepEveryMs: z.int().min(10).max(DAY_MS).default(60_000),
  /** Sessions without kernel, reader and work are closed after this time without use. */
  closeAfterMs: z
    .int()
    .min(10)
    .max(DAY_MS)
    .default(15 * 60_000),
});

export type SessionManagerOptions = z.input<typeof SessionManagerLimits> & {
  /** The caller closes it, after the session manager. */
  readonly storage: Storage;
  readonly dataDir: string;
  /** The states of sessions on other servers with the same storage, by id. */
  readonly elsewhere?: (() => Promise<ReadonlyMap<string, SessionInfo['state']>>) | undefined;
  /** Files of sessions deleted by other servers, if several share the storage. */
  readonly leftovers?: OrphanedFiles | undefined;
  /** Called when an action of a session's code is refused. */
  readonly refused?: AuditLog['refused'] | undefined;
  /** Throws `QUOTA_EXCEEDED` if a user with this many sessions may not have one more. */
  readonly admit?: ((ownerId: string, sessions: number) => Promise<void>) | undefined;
  /** Called for leftovers of earlier sessions that could not be removed. They are tried again. */
  readonly onLeftover?: OnFailure | undefined;
  /** Runs the turns of agents. */
  readonly agents?: TurnRunner | undefined;
  /** Defaults of every session: which Python, where packages come from … */
  readonly session?: Omit<
    SessionOptions,
    'agentKey' | 'spares' | 'storage' | 'dataDir' | 'persist' | 'folderLinks' | 'folderIds'
  >;
};

export function checkSessionManagerOptions(options: SessionManagerOptions) {
  const { dataDir, session = {}, onLeftover = () => {} } = options;
  const limits = parseOptions(SessionManagerLimits, options);
  return { ...options, ...limits, session, onLeftover, dataDir: dataFolder(dataDir) };
}

type CheckedManagerOptions = ReturnType<typeof checkSessionManagerOptions>;
/** Only the session manager uses these itself. */
type ManagerOptions = 'admit' | 'elsewhere' | 'idleMs' | 'pool' | 'refused' | 'session';

type KernelHooks = Required<Pick<SessionOptions, 'approve' | 'onProgress' | 'onRefused' | 'admitCall'>>;

/** What all sessions of a server share. */
export interface SessionServices extends Readonly<Omit<CheckedManagerOptions, ManagerOptions>> {
  readonly pool: KernelPool;
  /** Defaults of every session. */
  readonly session: NonNullable<SessionManagerOptions['session']> & { readonly folderLinks: 'refused' };
  readonly counters: Counters;
  /** The bytes of queued and running code and prompts, by their user. */
  readonly queuedBytes: ByteLimit;
  /** Whether the server is shutting down: nothing new starts. */
  readonly draining: () => boolean;
  /** The current version of a definition. Throws `NOT_FOUND` if it was deleted meanwhile. */
  readonly refetch: (definition: SessionDefinition) => Promise<SessionDefinition>;
  /** The callbacks of a session's kernels. */
  readonly kernelHooks: (definition: SessionDefinition) => KernelHooks;
  /** Called when an action of a session's code is refused. */
  readonly refused: (definition: SessionDefinition, refusal: CodeRefusal) => void;
  readonly fork: (id: string, wanted: NewFork) => Promise<ServerSession>;
  readonly delete: (id: string) => Promise<void>;
  /** Called for a session that another server has taken over. */
  readonly onOwnershipLost: (session: ServerSession) => void;
}

/** What a server has counted since it started. */
export interface Counters {
  events: number;
  eventsLost: number;
  appendFailures: number;
  readers: number;
  running: number;
  queued: number;
  /** Kernels that were reset or restarted by a caller. */
  restarts: number;
  /** By status, or `failed` or `interrupted`. */
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

/** A session can lock its packages, and cannot unlock those of a locked server. */
export function allowsRuntimeDeps(
  { session }: Pick<SessionServices, 'session'>,
  { allowRuntimeDeps = true }: Pick<SessionSettings, 'allowRuntimeDeps'>,
): boolean {
  return allowRuntimeDeps && session.allowRuntimeDeps !== false;
}
