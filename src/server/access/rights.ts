/** What a principal may do to a session: by owning it, by a share of it, or as an admin; never more than its scopes say. */

import { type Right, type Role, rights, roles, type Scope, type Share } from '../../protocol/access-models.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { Principal } from './contract.ts';

/** Of a session: whose it is, and with whom it is shared. */
export interface Belonging {
  readonly id: string;
  readonly ownerId: string;
  readonly shares: readonly Share[];
}

/** The most that the principal may do; undefined where it must not know of the session. */
export function rightOf(principal: Principal, ownerId: string, shares: readonly Share[]): Right | undefined {
  const granted = shares.filter((share) => isFor(principal, share)).map(({ right }) => right);
  const own: Right[] = principal.userId === ownerId || principal.scopes.includes('admin') ? ['manage'] : [];
  const most = strongest([...granted, ...own]);
  const bound = strongest(rights.filter((right) => principal.scopes.includes(right)));
  return most && bound && weaker(most, bound);
}

/** NOT_FOUND where it is not theirs, and FORBIDDEN where it is and the right is not enough. */
export function requireRight(principal: Principal, { id, ownerId, shares }: Belonging, needed: Right): void {
  const right = rightOf(principal, ownerId, shares);
  if (right === undefined) throw noSession(id);
  if (rank(right) >= rank(needed)) return;
  throw new CellaError('FORBIDDEN', `${principal.userName} may ${right} session ${id}, and this needs ${needed}.`, {
    details: { session: id, right, needed },
  });
}

export function noSession(id: string): CellaError {
  return new CellaError('NOT_FOUND', `There is no session ${JSON.stringify(id.slice(0, 100))}.`);
}

export function requireScope(principal: Principal, scope: Scope): void {
  if (principal.scopes.includes(scope)) return;
  throw new CellaError('FORBIDDEN', `This needs the scope ${scope}, which ${principal.userName} does not have here.`, {
    details: { scope },
  });
}

/** All that somebody of this role may do. */
export function scopesOf(role: Role): readonly Scope[] {
  switch (role) {
    case 'viewer':
      return ['view', 'tokens'];
    case 'member':
      return ['view', 'use', 'manage', 'tokens'];
    case 'admin':
      return ['view', 'use', 'manage', 'tokens', 'admin'];
  }
}

/** With what each of them brings along: whoever may use a session may look at it. */
export function closed(scopes: readonly Scope[]): Scope[] {
  const most = Math.max(...rights.map((right, at) => (scopes.includes(right) ? at : -1)));
  const rest = scopes.filter((scope) => scope === 'tokens' || scope === 'admin');
  return [...rights.slice(0, most + 1), ...new Set(rest)];
}

function isFor(principal: Principal, share: Share): boolean {
  if ('userId' in share) return share.userId === principal.userId;
  return roles.indexOf(principal.role) >= roles.indexOf(share.role);
}

const rank = (right: Right): number => rights.indexOf(right);

const weaker = (one: Right, other: Right): Right => (rank(one) < rank(other) ? one : other);

const strongest = (all: readonly Right[]): Right | undefined => all.toSorted((a, b) => rank(b) - rank(a))[0];
