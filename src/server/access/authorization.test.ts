import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Right, Role, Scope, Share } from '../../protocol/access-models.ts';
import { rights, roles, scopes } from '../../protocol/enums.ts';
import { CellaError } from '../../protocol/errors.ts';
import { type Principal, requireRight, requireScope, rightOf, scopesOf, withImpliedScopes } from './authorization.ts';

const someone = (userId: string, role: Role = 'member', only: readonly Scope[] = scopesOf(role)): Principal => ({
  userId,
  userName: userId.split('~', 1)[0] ?? '',
  role,
  scopes: scopesOf(role).filter((scope) => only.includes(scope)),
  authMethod: { kind: 'token', id: 'x', name: 'x' },
});

const [ada, bob] = ['ada~aaaaaaaaaaaa', 'bob~bbbbbbbbbbbb'];
const withBob = (right: Right): Share => ({ userId: bob, userName: 'bob', right });

function codeOf(work: () => void): string {
  try {
    work();
    return 'none';
  } catch (error) {
    return error instanceof CellaError ? error.code : String(error);
  }
}

describe('the right on a session', () => {
  test.each<[string, Principal, readonly Share[], Right | undefined]>([
    ['of its owner is to manage it', someone(ada), [], 'manage'],
    ['of another member is none', someone(bob), [], undefined],
    ['of an admin is to manage it', someone(bob, 'admin'), [], 'manage'],
    ['of an admin whose token is not for that is none', someone(bob, 'admin', ['view', 'use']), [], undefined],
    ['of whom it is shared with is that of the share', someone(bob), [withBob('use')], 'use'],
    ['of a viewer is to view it, whatever the share says', someone(bob, 'viewer'), [withBob('manage')], 'view'],
    ['of an owner with a token to view is to view it', someone(ada, 'member', ['view']), [], 'view'],
    ['of a token that is for no session is none', someone(ada, 'member', ['tokens']), [], undefined],
    ['is the strongest of several shares', someone(bob), [withBob('view'), { role: 'member', right: 'use' }], 'use'],
    ['by a share with a role is for that role', someone(bob), [{ role: 'member', right: 'use' }], 'use'],
    ['by a share with a role is for those above it', someone(bob), [{ role: 'viewer', right: 'view' }], 'view'],
    [
      'by a share with a role is not for those below it',
      someone(bob, 'viewer'),
      [{ role: 'member', right: 'view' }],
      undefined,
    ],
    [
      'by a share with a name is not for a later user of that name',
      someone('bob~cccccccccccc'),
      [withBob('use')],
      undefined,
    ],
  ])('%s', (_name, principal, shares, right) => {
    expect(rightOf(principal, ada, shares)).toBe(right);
  });

  test('never exceeds the scopes, and a stronger share is never less', () => {
    const share = fc.oneof(
      fc.record({ role: fc.constantFrom(...roles), right: fc.constantFrom(...rights) }),
      fc.record({ userId: fc.constantFrom(ada, bob), userName: fc.constant('x'), right: fc.constantFrom(...rights) }),
    );
    const rank = (right: Right | undefined) => (right === undefined ? -1 : rights.indexOf(right));
    fc.assert(
      fc.property(
        fc.constantFrom(...roles),
        fc.subarray([...scopes]),
        fc.array(share, { maxLength: 5 }),
        share,
        (role, only, shares, more) => {
          const principal = someone(bob, role, withImpliedScopes(only));
          const right = rightOf(principal, ada, shares);
          if (right) expect(principal.scopes).toContain(right);
          expect(rank(rightOf(principal, ada, [...shares, more]))).toBeGreaterThanOrEqual(rank(right));
        },
      ),
    );
  });
});

describe('a request without the right', () => {
  const session = { id: 'ses_1', ownerId: ada, shares: [withBob('view')] };

  test('is forbidden for users who may see the session, and not found for others', () => {
    expect(codeOf(() => requireRight(someone(bob), session, 'view'))).toBe('none');
    expect(codeOf(() => requireRight(someone(bob), session, 'use'))).toBe('FORBIDDEN');
    expect(codeOf(() => requireRight(someone('eve~eeeeeeeeeeee'), session, 'view'))).toBe('NOT_FOUND');
  });

  test('names the missing scope', () => {
    expect(codeOf(() => requireScope(someone(ada), 'tokens'))).toBe('none');
    expect(codeOf(() => requireScope(someone(ada), 'admin'))).toBe('FORBIDDEN');
  });
});

test('a scope includes those below it', () => {
  expect(withImpliedScopes(['manage'])).toEqual(['view', 'use', 'manage']);
  expect(withImpliedScopes(['admin', 'use', 'use', 'admin'])).toEqual(['view', 'use', 'admin']);
  expect(withImpliedScopes(['tokens'])).toEqual(['tokens']);
});
