/** Users: made, changed and deleted by admins, and nobody else gets in or learns of them. */

import { expect, it } from 'vitest';
import { failureOf, type OpenStorage } from '../storage/samples.ts';
import { accessPlace, newUser, openedAccess } from './samples.ts';

export function userContract(open: OpenStorage): void {
  it('are created, listed, changed, and kept after a restart', async () => {
    const { again } = accessPlace(open);
    const { access } = await again();
    const admin = access.localAdmin();
    const ada = await access.users.create(admin, { name: 'ada', quotas: { liveKernels: 3 } });
    await access.users.create(admin, { name: 'zoe@example.org', role: 'viewer' });
    expect(ada).toMatchObject({ name: 'ada', role: 'member', disabled: false, quotas: { liveKernels: 3 } });
    const changed = await access.users.update(admin, 'ada', { role: 'admin' });
    expect(changed).toMatchObject({ id: ada.id, role: 'admin', quotas: { liveKernels: 3 } });
    const other = (await again()).access;
    expect(await other.users.find(ada.id)).toEqual(changed);
    expect(await other.users.get(admin, 'ada')).toEqual(changed);
    const names = (await other.users.list(admin)).items.map(({ name }) => name);
    expect(names).toEqual(['ada', 'local', 'zoe@example.org']);
    const page = await other.users.list(admin, { limit: 2 });
    expect((await other.users.list(admin, { after: page.next ?? '' })).items).toHaveLength(1);
  });

  it('with the same name are created once, even by several at the same time', async () => {
    const { again } = accessPlace(open);
    const [one, other] = [(await again()).access, (await again()).access];
    const made = await Promise.allSettled(
      Array.from({ length: 10 }, (_, index) =>
        (index % 2 ? one : other).users.create(one.localAdmin(), { name: 'ada' }),
      ),
    );
    expect(made.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    const refused = made.flatMap((one) => (one.status === 'rejected' ? [one.reason.code] : []));
    expect(new Set(refused)).toEqual(new Set(['USER_EXISTS']));
  });

  it('keep every change if several callers change one at the same time', async () => {
    const { again } = accessPlace(open);
    const [one, other] = [(await again()).access, (await again()).access];
    await one.users.create(one.localAdmin(), { name: 'ada' });
    await Promise.all([
      one.users.update(one.localAdmin(), 'ada', { role: 'viewer' }),
      other.users.update(one.localAdmin(), 'ada', { disabled: true }),
      one.users.update(one.localAdmin(), 'ada', { quotas: { memoryMb: 5 } }),
    ]);
    expect(await one.users.find('ada')).toMatchObject({ role: 'viewer', disabled: true, quotas: { memoryMb: 5 } });
  });

  it('lose access at once when they are disabled, by token and by login, and get it back', async () => {
    const { again } = accessPlace(open);
    const [one, other] = [(await again()).access, (await again()).access];
    const { token, principal } = await newUser(one, 'ada');
    const { cookie } = await one.logins.open(principal);
    await other.users.update(other.localAdmin(), 'ada', { disabled: true });
    expect((await failureOf(one.authenticate(token))).code).toBe('UNAUTHENTICATED');
    expect((await failureOf(one.logins.authenticate(cookie))).code).toBe('UNAUTHENTICATED');
    expect((await failureOf(one.logins.open(principal))).code).toBe('UNAUTHENTICATED');
    await other.users.update(other.localAdmin(), 'ada', { disabled: false });
    expect((await one.authenticate(token)).userName).toBe('ada');
    expect((await one.logins.authenticate(cookie)).userName).toBe('ada');
  });

  it('have the scopes of a new role from the next call on', async () => {
    const access = await openedAccess(open);
    const { token } = await newUser(access, 'ada', 'admin');
    expect((await access.authenticate(token)).scopes).toContain('admin');
    await access.users.update(access.localAdmin(), 'ada', { role: 'viewer' });
    expect(await access.authenticate(token)).toMatchObject({ role: 'viewer', scopes: ['view', 'tokens'] });
  });

  it('leave nothing when they are deleted, so that a later user of the same name gets nothing', async () => {
    const access = await openedAccess(open);
    const { token, principal, tokenId } = await newUser(access, 'ada');
    const { cookie } = await access.logins.open(principal);
    const { code } = await access.logins.createCode(principal);
    await access.users.delete(access.localAdmin(), 'ada');
    const later = await newUser(access, 'ada');
    expect(later.principal.userId).not.toBe(principal.userId);
    for (const attempt of [
      access.authenticate(token),
      access.logins.authenticate(cookie),
      access.logins.redeem(code),
    ]) {
      expect((await failureOf(attempt)).code).toBe('UNAUTHENTICATED');
    }
    expect((await access.tokens.list(later.principal)).map(({ id }) => id)).toEqual([later.tokenId]);
    expect((await failureOf(access.tokens.revoke(access.localAdmin(), tokenId))).code).toBe('NOT_FOUND');
    expect(await access.users.find(principal.userId)).toBeUndefined();
  });

  it('can do nothing after they are deleted, even with a principal from before', async () => {
    const access = await openedAccess(open);
    const { principal } = await newUser(access, 'ada');
    await access.users.delete(access.localAdmin(), principal.userId);
    expect((await failureOf(access.logins.open(principal))).code).toBe('UNAUTHENTICATED');
    expect((await failureOf(access.tokens.create(principal, { name: 'x' }))).code).toBe('NOT_FOUND');
    await newUser(access, 'ada');
    expect((await failureOf(access.tokens.create(principal, { name: 'x' }))).code).toBe('NOT_FOUND');
    expect((await failureOf(access.users.delete(access.localAdmin(), principal.userId))).code).toBe('NOT_FOUND');
  });

  it('are visible only to admins; members see themselves', async () => {
    const access = await openedAccess(open);
    const { principal } = await newUser(access, 'ada');
    await newUser(access, 'bob');
    expect((await access.users.get(principal, 'ada')).id).toBe(principal.userId);
    expect((await access.users.get(principal, principal.userId)).name).toBe('ada');
    const attempts = [
      access.users.get(principal, 'bob'),
      access.users.get(principal, 'nobody'),
      access.users.list(principal),
      access.users.create(principal, { name: 'eve', role: 'admin' }),
      access.users.update(principal, 'ada', { role: 'admin' }),
      access.users.delete(principal, 'bob'),
      access.tokens.create(principal, { name: 'x', user: 'bob' }),
      access.tokens.list(principal, { user: 'bob' }),
    ];
    for (const attempt of attempts) expect((await failureOf(attempt)).code).toBe('FORBIDDEN');
    expect((await access.users.find('ada'))?.role).toBe('member');
  });

  it('include local, which stays an enabled admin', async () => {
    const access = await openedAccess(open);
    const admin = access.localAdmin();
    for (const attempt of [
      access.users.delete(admin, 'local'),
      access.users.update(admin, 'local', { disabled: true }),
      access.users.update(admin, 'local', { role: 'member' }),
    ]) {
      expect((await failureOf(attempt)).code).toBe('FORBIDDEN');
    }
    expect((await failureOf(access.users.create(admin, { name: 'local' }))).code).toBe('USER_EXISTS');
    expect((await access.users.update(admin, 'local', { quotas: { liveKernels: 9 } })).quotas.liveKernels).toBe(9);
  });

  it.each(['', 'Ada', 'a b', 'ä', '../x', '~', 'a~b', '.a', 'x'.repeat(65), 'a\n', 'a/b', '\0'])(
    'cannot be called %j',
    async (name) => {
      const access = await openedAccess(open);
      expect((await failureOf(access.users.create(access.localAdmin(), { name }))).code).toBe('INVALID_REQUEST');
      expect((await failureOf(access.users.get(access.localAdmin(), name))).code).toBe('NOT_FOUND');
      expect(await access.users.find(name)).toBeUndefined();
    },
  );

  it('are not affected by another user’s damaged document, and local is repaired at the next start', async () => {
    const { again } = accessPlace(open);
    const { access, storage } = await again();
    const { token } = await newUser(access, 'ada');
    await newUser(access, 'bob');
    await storage.documents.put('users', 'bob', { role: 'emperor' });
    await storage.documents.put('users', 'local', 'nothing');
    const other = (await again()).access;
    expect((await other.authenticate(token)).userName).toBe('ada');
    expect((await other.users.list(other.localAdmin())).items.map(({ name }) => name)).toEqual(['ada', 'local']);
    expect((await failureOf(other.users.get(other.localAdmin(), 'bob'))).code).toBe('STORAGE_FAILED');
    expect(await other.users.find('local')).toMatchObject({ role: 'admin', disabled: false });
  });
}
