/** The options of a session manager, with their defaults. */

import { z } from 'zod';
import type { OnFailure } from '../../environments/files/remove-tree.ts';
import type { SessionInfo } from '../../protocol/session-info.ts';
import { dataFolder } from '../../session/data-folders.ts';
import { PoolLimits } from '../../session/kernel-pool.ts';
import { parseOptions, type SessionOptions } from '../../session/session-options.ts';
import type { Storage } from '../../storage/contract.ts';
import type { AuditLog } from '../access/access-control.ts';
import type { TurnRunner } from '../turns/session-turns.ts';
import type { OrphanedFiles } from './orphaned-files.ts';

const KB = 1024;
const MB = 1024 * KB;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

const count = z.int().min(0).max(Number.MAX_SAFE_INTEGER);

const SessionManagerLimits = z.strictObject({
  pool: PoolLimits.omit({ idleTtlMs: true }).prefault({}),
  /** Idle kernels are put to sleep after this long; 0 means never. */
  idleTtlMs: PoolLimits.shape.idleTtlMs,
  limits: z
    .strictObject({
      /** What is larger becomes a file that its event names. */
      eventBytes: count.min(1024).default(256 * KB),
      /** How much output of one execution becomes events; the rest goes to files. */
      inlineBytes: count.default(8 * MB),
      /** The most that one stream of an execution may write to a file. */
      fileBytes: count.default(1024 * MB),
    })
    .prefault({}),
  /** How long, and how many for each session, Idempotency-Keys are known. */
  requests: z.strictObject({ maxAgeMs: count.default(DAY_MS), maxCount: count.default(1000) }).prefault({}),
  /** How much of each session's log stays; 0 means all. */
  retention: z
    .strictObject({
      maxAgeMs: count.default(30 * DAY_MS),
      maxBytes: count.default(64 * MB),
      maxFileBytes: count.default(4096 * MB),
    })
    .prefault({}),
  /** Whether a result survives a loss of power before it is told. Without it, it survives the end of the server. */
  flushResults: z.boolean().default(true),
  /** How often retention is looked after in sessions that are in use. */
  sweepEveryMs: z.int().min(10).max(DAY_MS).default(60_000),
  /** Sessions without kernel, reader and work are closed when nobody has asked for them in this time. */
  closeAfterMs: z
    .int()
    .min(10)
    .max(DAY_MS)
    .default(15 * 60_000),
});

export type SessionManagerOptions = z.input<typeof SessionManagerLimits> & {
  /** Where everything is kept. Whoever opened it closes it, after the host. */
  readonly storage: Storage;
  readonly dataDir: string;
  /** What the kernels of other servers on the same storage do, by the ids of their sessions. */
  readonly elsewhere?: (() => Promise<ReadonlyMap<string, SessionInfo['state']>>) | undefined;
  /** What was deleted elsewhere, where other servers share the storage. */
  readonly leftovers?: OrphanedFiles | undefined;
  /** Told of what the code of sessions tried and was refused. */
  readonly refused?: AuditLog['refused'] | undefined;
  /** Whether an owner who has so many sessions may have one more; `QUOTA_EXCEEDED` where not. */
  readonly admit?: ((ownerId: string, sessions: number) => Promise<void>) | undefined;
  /** Told of what earlier sessions have left and that could not be removed yet: it is tried again. */
  readonly onLeftover?: OnFailure | undefined;
  /** Runs the turns of agents. */
  readonly agents?: TurnRunner | undefined;
  /** For every session, beneath its own settings: which Python, where packages come from … */
  readonly session?: Omit<
    SessionOptions,
    'agentKey' | 'spares' | 'storage' | 'dataDir' | 'persist' | 'folderLinks' | 'folderIds'
  >;
};

export function checkSessionManagerOptions(options: SessionManagerOptions) {
  const {
    storage,
    dataDir,
    session = {},
    elsewhere,
    leftovers,
    agents,
    refused,
    admit,
    onLeftover = () => {},
    ...limits
  } = options;
  return {
    elsewhere,
    leftovers,
    agents,
    refused,
    admit,
    onLeftover,
    storage,
    dataDir: dataFolder(dataDir),
    session,
    ...parseOptions(SessionManagerLimits, limits),
  };
}
