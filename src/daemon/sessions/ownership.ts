/**
 * Which server has a session: one at a time, by a lock in the storage that they share, on the key under which everything
 * of the session is kept. What is written for a session is written through that lock, and so by nobody else.
 */

import { CellaError } from '../../protocol/errors.ts';
import type { Lock, Storage } from '../../storage/contract.ts';

/** How long this server's own upkeep may have it. */
const OWN_MS = 5000;
/** When it is worth to ask again. */
const AGAIN_MS = 1000;

/** `SESSION_ELSEWHERE` where another server has it. */
export async function takeSession({ locks }: Pick<Storage, 'locks'>, key: string, waitMs = 0): Promise<Lock> {
  try {
    const ours = (await locks.holder(key))?.id === locks.id;
    return await locks.acquire(key, { waitMs: ours ? Math.max(waitMs, OWN_MS) : waitMs });
  } catch (error) {
    if (error instanceof CellaError && error.code === 'AGENT_BUSY') throw elsewhere(error.details, error.message);
    throw error;
  }
}

export function elsewhere(holder: Readonly<Record<string, unknown>> = {}, how = ''): CellaError {
  const message = how === '' ? 'Another server has this session.' : `Another server has this session: ${how}`;
  return new CellaError('SESSION_ELSEWHERE', message, { details: { ...holder, retryAfterMs: AGAIN_MS } });
}

/** It may be ours, and may be another's: nothing begins until that is known. */
export function doubtful(): CellaError {
  const message = 'Storage has not answered for so long that another server may have this session by now.';
  return new CellaError('STORAGE_UNREACHABLE', message, { details: { retryAfterMs: AGAIN_MS } });
}
