/**
 * Which server owns a session: one at a time, by a lock in the shared storage on the key that everything of the session is
 * kept under. All writes for a session go through that lock.
 */

import { CellaError } from '../../protocol/errors.ts';
import type { Lock, Storage } from '../../storage/contract.ts';

/** By this name others know that a server has it, which can be asked, and not just any process. */
const COMMAND = 'cella serve';
/** How long this server's own upkeep may have it. */
const OWN_LOCK_WAIT_MS = 30_000;
/** When it is worth to ask again. */
const RETRY_AFTER_MS = 1000;

/** `SESSION_ELSEWHERE` where another server has it, and `AGENT_BUSY` where another process does. */
export async function acquireSession({ locks }: Pick<Storage, 'locks'>, key: string, waitMs = 0): Promise<Lock> {
  try {
    const ours = (await locks.holder(key))?.id === locks.id;
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

/** Whether somebody else has it, and looks after it. */
export function isHeldByOther(error: unknown): boolean {
  return error instanceof CellaError && (error.code === 'SESSION_ELSEWHERE' || error.code === 'AGENT_BUSY');
}

/** It may be ours, and may be another's: nothing begins until that is known. */
export function ownershipUncertain(): CellaError {
  const message = 'Storage has not answered for so long that another server may have this session by now.';
  return new CellaError('STORAGE_UNREACHABLE', message, { details: { retryAfterMs: RETRY_AFTER_MS } });
}
