/** With whom a session is to be shared: people name users; what is written down is their id, which never becomes another's. */

import type { Share } from '../../protocol/access-models.ts';
import type { ShareWish } from '../../protocol/api/session-routes.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { AccessControl } from '../access/access-control.ts';

/** Undefined where nothing was said of shares. */
export async function resolveShares(
  wishes: readonly ShareWish[] | undefined,
  users: AccessControl['users'],
): Promise<{ shares?: Share[] }> {
  if (wishes === undefined) return {};
  return { shares: await Promise.all(wishes.map((wish) => resolve(wish, users))) };
}

async function resolve(wish: ShareWish, users: AccessControl['users']): Promise<Share> {
  if ('role' in wish) return wish;
  const named = 'user' in wish ? wish.user : wish.userId;
  const user = await users.find(named);
  if (user) return { userId: user.id, userName: user.name, right: wish.right };
  throw new CellaError('INVALID_REQUEST', `shares: there is no user ${JSON.stringify(named)}.`);
}
