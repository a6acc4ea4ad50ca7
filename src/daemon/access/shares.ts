/** From shares by name to shares by id: a later user of the same name does not get them. */

import type { Share, ShareRequest } from '../../protocol/access.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { Users } from './contract.ts';

const MOST_SHARES = 100;

/** NOT_FOUND where there is no such user. Of several for the same user or role, the last one holds. */
export async function resolveShares(users: Pick<Users, 'find'>, requests: readonly ShareRequest[]): Promise<Share[]> {
  if (requests.length > MOST_SHARES) {
    throw new CellaError(
      'INVALID_REQUEST',
      `A session can be shared ${MOST_SHARES} times, not ${requests.length} times.`,
    );
  }
  const shares = new Map<string, Share>();
  for (const request of requests) {
    if ('role' in request) shares.set(`role ${request.role}`, { role: request.role, right: request.right });
    else shares.set(request.user, await withUser(users, request.user, request.right));
  }
  return [...shares.values()];
}

async function withUser(users: Pick<Users, 'find'>, name: string, right: Share['right']): Promise<Share> {
  const user = await users.find(name);
  if (user) return { userId: user.id, userName: user.name, right };
  throw new CellaError('NOT_FOUND', `There is no user ${JSON.stringify(name.slice(0, 100))}.`);
}
