/** What a principal may do: scopes, and rights to a session by ownership, share or the admin role. */

import type { Quotas, Right, Role, Scope, Share } from '../../protocol/access-models.ts';
import { rights, roles } from '../../protocol/enums.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { UserStore } from './user-store.ts';

/** The user whose token is in the data folder. */
export const LOCAL = 'local';

/** Who sends a request, and what they may do. */
export interface Principal {
  readonly userId: string;
  readonly userName: string;
  readonly role: Role;
  /** The scopes that both the role and the token or login allow. */
  readonly scopes: readonly Scope[];
  readonly authMethod: AuthMethod;
  /** The limits of its user at the time of the request, if they were read with it. */
  readonly quotas?: Quotas | undefined;
}

/** How the principal authenticated. `id` is not secret: it is shown, and is the key of the rate limit. */
type AuthMethod =
  | { readonly kind: 'token'; readonly id: string; readonly name: string }
  | { readonly kind: 'login'; readonly id: string; readonly tokenId?: string }
  | { readonly kind: 'server'; readonly id: 'server' };

/** Whose session it is, and with whom it is shared. */
interface SessionAcl {
  readonly id: string;
  readonly ownerId: string;
  readonly shares: readonly Share[];
}

/** The most that the principal may do; undefined if it must not know of the session. */
export function rightOf(principal: Principal, ownerId: string, shares: readonly Share[]): Right | undefined {
  const granted = shares.filter((share) => isFor(principal, share)).map(({ right }) => right);
  const own: Right[] = principal.userId === ownerId || principal.scopes.includes('admin') ? ['manage'] : [];
  const most = strongest([...granted, ...own]);
  const bound = strongest(rights.filter((right) => principal.scopes.includes(right)));
  return most && bound && weaker(most, bound);
}

/** NOT_FOUND if the principal must not know of the session, FORBIDDEN if its right is not enough. */
export function requireRight(principal: Principal, { id, ownerId, shares }: SessionAcl, needed: Right): void {
  const right = rightOf(principal, ownerId, shares);
  if (right === undefined) throw sessionNotFound(id);
  if (rank(right) >= rank(needed)) return;
  throw new CellaError(
    'FORBIDDEN',
    `${principal.userName} has the right to ${right} session ${id}, but this needs the right to ${needed}.`,
    { details: { session: id, right, needed } },
  );
}

export function sessionNotFound(id: string): CellaError {
  return new CellaError('NOT_FOUND', `There is no session ${JSON.stringify(id.slice(0, 100))}.`);
}

export function requireScope(principal: Principal, scope: Scope): void {
  if (principal.scopes.includes(scope)) return;
  throw new CellaError(
    'FORBIDDEN',
    `This needs the scope ${scope}, which this token or login of ${principal.userName} does not have.`,
    { details: { scope } },
  );
}

/** All scopes of a role. */
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

/** Adds the scopes that others imply: `use` implies `view`. */
export function withImpliedScopes(scopes: readonly Scope[]): Scope[] {
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

/** The principal that a verified token or login stands for. UNAUTHENTICATED if the user is gone or disabled. */
export async function principalOf(
  users: Pick<UserStore, 'find'>,
  { userId, scopes }: { readonly userId: string; readonly scopes: readonly Scope[] },
  authMethod: AuthMethod,
): Promise<Principal> {
  const user = await users.find(userId);
  if (!user) throw unauthenticated();
  if (user.disabled) {
    throw unauthenticated(`The user ${user.name} is disabled.`, 'Ask an admin, who can run `cella users enable NAME`.');
  }
  const { id, name, role, quotas } = user;
  return {
    userId: id,
    userName: name,
    role,
    scopes: scopesOf(role).filter((scope) => scopes.includes(scope)),
    authMethod,
    quotas,
  };
}

export const localAdmin: Principal = {
  userId: LOCAL,
  userName: LOCAL,
  role: 'admin',
  scopes: scopesOf('admin'),
  authMethod: { kind: 'server', id: 'server' },
};

/** One error for unknown, expired and revoked tokens and logins, so that it does not reveal which it was. */
export const unauthenticated = (message = 'Invalid or expired token or login.', advice?: string): CellaError =>
  new CellaError('UNAUTHENTICATED', message, advice === undefined ? {} : { advice });
