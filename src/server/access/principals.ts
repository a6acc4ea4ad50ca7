/** From a credential that was proven to whoever it stands for, as that user is at this moment. */

import type { Scope } from '../../protocol/access-models.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { Credential, Principal, Users } from './contract.ts';
import { scopesOf } from './rights.ts';
import { LOCAL } from './users.ts';

/** UNAUTHENTICATED where the user is gone or disabled. */
export async function principalOf(
  users: Pick<Users, 'find'>,
  { userId, scopes }: { readonly userId: string; readonly scopes: readonly Scope[] },
  credential: Credential,
): Promise<Principal> {
  const user = await users.find(userId);
  if (!user) throw unauthenticated();
  if (user.disabled) {
    throw unauthenticated(`The user ${user.name} is disabled.`, 'Ask an admin, who can run `cella users enable NAME`.');
  }
  const { id, name, role } = user;
  return {
    userId: id,
    userName: name,
    role,
    scopes: scopesOf(role).filter((scope) => scopes.includes(scope)),
    credential,
  };
}

export const daemonPrincipal: Principal = {
  userId: LOCAL,
  userName: LOCAL,
  role: 'admin',
  scopes: scopesOf('admin'),
  credential: { kind: 'daemon', id: 'daemon' },
};

/** One answer to all that is unknown, expired or revoked: it tells nobody which of them it is. */
export const unauthenticated = (
  message = 'This token or login is not valid, or not any more.',
  advice?: string,
): CellaError => new CellaError('UNAUTHENTICATED', message, advice === undefined ? {} : { advice });
