/** Which server has a session: one at a time, by a lock in the storage that they share. Nobody else writes its log. */

import { CellaError } from '../../protocol/errors.ts';
import type { Lock, Storage } from '../../storage/contract.ts';

/** `SESSION_ELSEWHERE` where another server has it. */
export async function takeSession({ locks }: Pick<Storage, 'locks'>, id: string, waitMs = 0): Promise<Lock> {
  try {
    return await locks.acquire(lockOf(id), { waitMs });
  } catch (error) {
    if (error instanceof CellaError && error.code === 'AGENT_BUSY') throw elsewhere(error.details);
    throw error;
  }
}

export function elsewhere(holder: Readonly<Record<string, unknown>> = {}): CellaError {
  return new CellaError('SESSION_ELSEWHERE', 'Another server has this session.', { details: { ...holder } });
}

/** No agent of any user has such a key: their ids are not empty. */
const lockOf = (id: string) => `~/${id}`;
