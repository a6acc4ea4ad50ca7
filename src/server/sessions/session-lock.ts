/**
 * Which server owns a session: one at a time, by a lock in the shared storage on the key that everything of the session is
 * kept under. All writes for a session go through that lock.
 */

import { CellaError } from '../../protocol/errors.ts';
import type { Lock, Storage } from '../../storage/contract.ts';

/** This name tells others that a server has the lock, which can be asked, not another process. */
const COMMAND = 'cella serve';
/** How long this server's own maintenance may hold it. */
const OWN_LOCK_WAIT_MS = 30_000;
/** When a retry is worthwhile. */
const RETRY_AFTER_MS = 1000;

/** Throws `SESSION_ELSEWHERE` if another server has it, `AGENT_BUSY` if another process does. */
export async function acquireSession({ locks }: Pick<Storage, 'locks'>, key: string, waitMs = 0): Promise<Lock> {
  try {
    const ours = (await locks.ownerOf(key))?.id === locks.id;
    return await locks.acquire(key, { waitMs: ours ? Math.max(waitMs, OWN_LOCK_WAIT_MS) : waitMs, command: COMMAND });
  } catch (error) {
    const busy = error instanceof CellaError && error.code === 'AGENT_BUSY' && error.details.command === COMMAND;
    throw busy ? ownedElsewhere(error.details, error.message) : error;
  }
}

export function ownedElsewhere(holder: Readonly<Record<string, unknown>> = {}, how = ''): CellaError {
  const message = how === '' ? 'Another server has this session.' : `Another server has this session: ${how}`;
  return new CellaError('SESSION_ELSEWHERE', message, { details: { ...holder, retryAfterMs: RETRY_AFTER_MS } });
}

/** Whether another server or process has it. */
export function isHeldByOther(error: unknown): boolean {
  return error instanceof CellaError && (error.code === 'SESSION_ELSEWHERE' || error.code === 'AGENT_BUSY');
}

/** Nothing starts until it is known who holds the lock. */
export function ownershipUncertain(): CellaError {
  const message = 'Storage has not answered for so long that another server may have this session by now.';
  return new CellaError('STORAGE_UNREACHABLE', message, { details: { retryAfterMs: RETRY_AFTER_MS } });
}
