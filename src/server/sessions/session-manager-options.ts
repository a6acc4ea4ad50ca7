/** The options of a session manager, with their defaults. */

import { z } from 'zod';
import type { OnFailure } from '../../environments/files/remove-tree.ts';
import { parseOptions } from '../../protocol/parse.ts';
import type { SessionInfo } from '../../protocol/session-info.ts';
import { dataFolder } from '../../session/data-folders.ts';
import { PoolLimits } from '../../session/kernel-pool.ts';
import type { SessionOptions } from '../../session/session-options.ts';
import { serverDefaults } from '../../settings/server-config.ts';
import type { Storage } from '../../storage/contract.ts';
import type { AuditLog } from '../access/audit-log.ts';
import type { TurnRunner } from '../turns/session-turns.ts';
import type { OrphanedFiles } from './orphaned-files.ts';

const KB = 1024;
const MB = 1024 * KB;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

const count = z.int().min(0).max(Number.MAX_SAFE_INTEGER);

const { retention, flushResults } = serverDefaults;

const SessionManagerLimits = z.strictObject({
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
  /** How much of each session's log is kept; 0 means all. */
  retention: z
    .strictObject({
      maxAgeMs: count.default(retention.maxAgeMs),
      maxBytes: count.default(retention.maxBytes),
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
  /** Called for what the code of sessions tried and was refused. */
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
