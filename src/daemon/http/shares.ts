/** With whom a session is shared: as it is written down, by the id of a user or `role:` and a role, and as rights read it. */

import { Role, type Share } from '../../protocol/access.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { SessionInfo, Shares } from '../../protocol/http/sessions.ts';
import type { Access } from '../access/contract.ts';
import type { Belonging } from '../access/rights.ts';

const BY_ROLE = 'role:';

export function belonging({ id, owner, shares }: SessionInfo): Belonging {
  return { id, ownerId: owner, shares: Object.entries(shares).flatMap(([who, right]) => shareOf(who, right)) };
}

function shareOf(who: string, right: Share['right']): Share[] {
  if (!who.startsWith(BY_ROLE)) return [{ userId: who, userName: '-', right }];
  const role = Role.safeParse(who.slice(BY_ROLE.length));
  return role.success ? [{ role: role.data, right }] : [];
}

/** People name users; what is written down is their id, which never becomes another's. */
export async function resolveShares(shares: Shares | undefined, users: Access['users']): Promise<Shares | undefined> {
  if (shares === undefined) return undefined;
  const resolved: Shares = {};
  for (const [who, right] of Object.entries(shares)) {
    if (who.startsWith(BY_ROLE)) {
      if (!Role.safeParse(who.slice(BY_ROLE.length)).success) throw unknown(who);
      resolved[who] = right;
      continue;
    }
    const user = await users.find(who);
    if (!user) throw unknown(who);
    resolved[user.id] = right;
  }
  return resolved;
}

function unknown(who: string): CellaError {
  const name = JSON.stringify(who.slice(0, 100));
  return new CellaError('INVALID_REQUEST', `shares: there is no user ${name}; a role is written as role:member.`);
}
