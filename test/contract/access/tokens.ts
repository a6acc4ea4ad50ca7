/** Tokens: shown once, bound to a user and to scopes, with an end, and gone at once where they are revoked. */

import fc from 'fast-check';
import { expect, it } from 'vitest';
import { type AccessControl, openAccess } from '../../../src/server/access/access-control.ts';
import type { DocumentStore } from '../../../src/storage/contract.ts';
import { failureOf, type OpenStorage } from '../storage/samples.ts';
import { accessPlace, handClock, newUser, openedAccess } from './samples.ts';

const refusal = async (access: AccessControl, token: string): Promise<string> =>
  (await failureOf(access.authenticate(token))).code;

export function tokenContract(open: OpenStorage): void {
  it('carry user and scopes, also on another server and after a restart', async () => {
    const { again } = accessPlace(open);
    const { access } = await again();
    const { token, principal } = await newUser(access, 'ada');
    expect(token).toMatch(/^cella_[a-z2-7]{16}_[A-Za-z0-9_-]{43}$/);
    expect(principal).toMatchObject({ userName: 'ada', role: 'member', scopes: ['view', 'use', 'manage', 'tokens'] });
    expect(await (await again()).access.authenticate(token)).toEqual(principal);
  });

  it('are refused if they are forged, cut, extended or combined from two', async () => {
    const access = await openedAccess(open);
    const [ada, bob] = [await newUser(access, 'ada'), await newUser(access, 'bob')];
    const secretOf = (token: string) => token.slice(-43);
    const idOf = (token: string) => token.slice(6, 22);
    const never = [
      '',
      'cella_',
      'cella__',
      `cella_${idOf(ada.token)}_${secretOf(bob.token)}`,
      `cella_${idOf(bob.token)}_${secretOf(ada.token)}`,
      `cella_${idOf(ada.token)}_`,
      `cella_${'a'.repeat(16)}_${secretOf(ada.token)}`,
      `CELLA${ada.token.slice(5)}`,
      ` ${ada.token}`,
      `${ada.token}\n`,
      `${ada.token}\0`,
      `Bearer ${ada.token}`,
      `${ada.token}${ada.token}`,
      ada.token.toUpperCase(),
      ada.token.replace('cella_', 'cella_../users/'),
      'x'.repeat(10_000_000),
      `cella_${idOf(ada.token)}_${'é'.repeat(43)}`,
      `cella_${idOf(ada.token)}_${'\ud800'.repeat(43)}`,
    ];
    for (const token of never) expect(await refusal(access, token), token.slice(0, 100)).toBe('UNAUTHENTICATED');
    for (let end = 0; end < ada.token.length; end += 1) {
      expect(await refusal(access, ada.token.slice(0, end))).toBe('UNAUTHENTICATED');
    }
    const anything = fc.oneof(
      fc.string({ unit: fc.nat(0xffff).map((unit) => String.fromCharCode(unit)), maxLength: 200 }),
      fc
        .tuple(fc.nat(ada.token.length - 1), fc.string({ minLength: 1, maxLength: 3 }))
        .map(([at, text]) => ada.token.slice(0, at) + text + ada.token.slice(at + text.length)),
    );
    await fc.assert(
      fc.asyncProperty(anything, async (token) => {
        fc.pre(token !== ada.token);
        expect(await refusal(access, token)).toBe('UNAUTHENTICATED');
      }),
      { numRuns: 200 },
    );
    expect((await access.authenticate(ada.token)).userName).toBe('ada');
  });

  it('are refused with the same error, whatever is wrong with them', async () => {
    const { clock, set } = handClock(1000);
    const access = await openedAccess(open, { clock });
    const expired = (await newUser(access, 'ada', 'member', { expiresInMs: 10 })).token;
    const revoked = await newUser(access, 'bob');
    await access.tokens.revoke(revoked.principal, revoked.tokenId);
    set(2000);
    const wrong = `${expired.slice(0, -43)}${'a'.repeat(43)}`;
    const errors = await Promise.all(
      [expired, revoked.token, wrong, 'nonsense'].map((token) => failureOf(access.authenticate(token))),
    );
    expect(new Set(errors.map((error) => JSON.stringify(error))).size).toBe(1);
  });

  it('are refused from the next call after they are revoked, on every server, even while in use', async () => {
    const { again } = accessPlace(open);
    const [one, other] = [(await again()).access, (await again()).access];
    for (let round = 0; round < 10; round += 1) {
      const { token, tokenId } = await newUser(one, `user${round}`);
      const busy = Array.from({ length: 20 }, (_, index) =>
        (index % 2 ? one : other).authenticate(token).then(
          () => 'in',
          (error) => error.code,
        ),
      );
      await other.tokens.revoke(other.localAdmin(), tokenId);
      expect(await refusal(one, token)).toBe('UNAUTHENTICATED');
      expect(await refusal(other, token)).toBe('UNAUTHENTICATED');
      for (const outcome of await Promise.all(busy)) expect(['in', 'UNAUTHENTICATED']).toContain(outcome);
    }
  });

  it('are not restored if they are revoked while their last use is being recorded', async () => {
    const { again, dataDir } = accessPlace(open);
    const { access, storage } = await again();
    const { token, info } = await access.tokens.create(access.localAdmin(), { name: 'x' });
    const { promise: revoked, resolve: go } = Promise.withResolvers<void>();
    const { documents, events } = storage;
    const late: DocumentStore = {
      get: (...words) => documents.get(...words),
      list: (...words) => documents.list(...words),
      delete: (...words) => documents.delete(...words),
      count: (...words) => documents.count(...words),
      put: async (collection, id, ...words) => {
        if (id === info.id) await revoked;
        return documents.put(collection, id, ...words);
      },
    };
    const slow = await openAccess({ storage: { documents: late, events }, dataDir });
    expect((await slow.authenticate(token)).userId).toBe('local');
    await access.tokens.revoke(access.localAdmin(), info.id);
    go();
    await slow.close();
    expect(await refusal(access, token)).toBe('UNAUTHENTICATED');
    expect(await documents.get('tokens', info.id)).toBeUndefined();
  });

  it('can be revoked by their user, by an admin or by themselves, and do not exist for everybody else', async () => {
    const access = await openedAccess(open);
    const [ada, bob] = [await newUser(access, 'ada'), await newUser(access, 'bob')];
    const weak = await access.tokens.create(ada.principal, { name: 'weak', scopes: ['view'] });
    const weakling = await access.authenticate(weak.token);
    expect((await failureOf(access.tokens.revoke(bob.principal, ada.tokenId))).code).toBe('NOT_FOUND');
    expect((await failureOf(access.tokens.revoke(weakling, ada.tokenId))).code).toBe('FORBIDDEN');
    for (const id of ['', 'nothing', '../users/ada', 'a'.repeat(16)]) {
      expect((await failureOf(access.tokens.revoke(ada.principal, id))).code).toBe('NOT_FOUND');
    }
    await access.tokens.revoke(weakling, weak.info.id);
    expect(await refusal(access, weak.token)).toBe('UNAUTHENTICATED');
    await access.tokens.revoke(access.localAdmin(), ada.tokenId);
    expect(await refusal(access, ada.token)).toBe('UNAUTHENTICATED');
    expect((await failureOf(access.tokens.revoke(access.localAdmin(), ada.tokenId))).code).toBe('NOT_FOUND');
  });

  it('never allow more than both their creator and their user may do', async () => {
    const access = await openedAccess(open);
    const { principal } = await newUser(access, 'ada');
    const made = await access.tokens.create(principal, { name: 'ci', scopes: ['use', 'tokens'] });
    const ci = await access.authenticate(made.token);
    expect(ci.scopes).toEqual(['view', 'use', 'tokens']);
    expect((await failureOf(access.tokens.create(ci, { name: 'x', scopes: ['manage'] }))).code).toBe('FORBIDDEN');
    expect((await access.tokens.create(ci, { name: 'x' })).info.scopes).toEqual(['view', 'use', 'tokens']);
    expect((await failureOf(access.tokens.create(principal, { name: 'x', scopes: ['admin'] }))).code).toBe('FORBIDDEN');
    await newUser(access, 'vera', 'viewer');
    const attempt = access.tokens.create(access.localAdmin(), { name: 'x', user: 'vera', scopes: ['use'] });
    expect((await failureOf(attempt)).code).toBe('FORBIDDEN');
    const look = await access.tokens.create(principal, { name: 'look', scopes: ['view'] });
    const looker = await access.authenticate(look.token);
    expect((await failureOf(access.tokens.create(looker, { name: 'x' }))).code).toBe('FORBIDDEN');
    expect((await failureOf(access.tokens.list(looker))).code).toBe('FORBIDDEN');
  });

  it('are listed without their secret, in the order of creation', async () => {
    const { clock, set } = handClock(1000);
    const access = await openedAccess(open, { clock });
    const { principal, tokenId } = await newUser(access, 'ada');
    await newUser(access, 'bob');
    set(2000);
    const second = await access.tokens.create(principal, { name: 'second', expiresInMs: 5000 });
    const listed = await access.tokens.list(principal);
    expect(listed.map(({ id }) => id)).toEqual([tokenId, second.info.id]);
    expect(listed[1]).toEqual({
      id: second.info.id,
      name: 'second',
      userId: principal.userId,
      userName: 'ada',
      scopes: ['view', 'use', 'manage', 'tokens'],
      createdAt: 2000,
      expiresAt: 7000,
    });
    expect(JSON.stringify(listed)).not.toContain(second.token.slice(-43));
    expect(await access.tokens.list(access.localAdmin(), { user: 'ada' })).toEqual(listed);
  });

  it('expire, and stay expired if the clock is set back', async () => {
    const { clock, set } = handClock(1_000_000_000);
    const access = await openedAccess(open, { clock });
    const { token } = await newUser(access, 'ada', 'member', { expiresInMs: 60_000 });
    const forever = (await newUser(access, 'bob')).token;
    set(1_000_000_000 + 59_999);
    expect((await access.authenticate(token)).userName).toBe('ada');
    set(1_000_000_000 - 60_000);
    expect((await access.authenticate(token)).userName).toBe('ada');
    for (const at of [1_000_060_000, 2_000_000_000, 1_000_000_000 - 3_600_000, 0]) {
      set(at);
      expect(await refusal(access, token)).toBe('UNAUTHENTICATED');
      expect((await access.authenticate(forever)).userName).toBe('bob');
    }
    set(1_000_060_000);
    await access.sweep();
    set(1_000_000_000);
    expect(await refusal(access, token)).toBe('UNAUTHENTICATED');
  });

  it('record when they were last used, at most once a minute, also after the clock was set back', async () => {
    const { clock, set } = handClock(10_000_000);
    const { again } = accessPlace(open);
    const { access, storage } = await again({ clock });
    const { token, tokenId, principal } = await newUser(access, 'ada');
    const usedAt = async () => {
      await access.close();
      return (await access.tokens.list(principal)).find(({ id }) => id === tokenId)?.lastUsedAt;
    };
    const revision = async () => (await storage.documents.get('tokens', tokenId))?.revision;
    expect(await usedAt()).toBe(10_000_000);
    const before = await revision();
    for (const later of [1, 1000, 59_999]) {
      set(10_000_000 + later);
      await Promise.all(Array.from({ length: 10 }, () => access.authenticate(token)));
      expect(await usedAt()).toBe(10_000_000);
    }
    expect(await revision()).toBe(before);
    set(10_060_000);
    await Promise.all(Array.from({ length: 10 }, () => access.authenticate(token)));
    expect(await usedAt()).toBe(10_060_000);
    set(5_000_000);
    await access.authenticate(token);
    expect(await usedAt()).toBe(5_000_000);
  });

  it('are refused with invalid names, scopes or times', async () => {
    const access = await openedAccess(open);
    const bad: unknown[] = [
      { name: '' },
      { name: ' ' },
      { name: 'x'.repeat(101) },
      { name: 'x', scopes: [] },
      { name: 'x', scopes: ['root'] },
      { name: 'x', expiresInMs: 0 },
      { name: 'x', expiresInMs: -1 },
      { name: 'x', expiresInMs: 1e300 },
      { name: 'x', secret: 'chosen' },
      null,
    ];
    for (const input of bad) {
      const attempt = access.tokens.create(access.localAdmin(), input as { name: string });
      expect((await failureOf(attempt)).code, JSON.stringify(input)).toBe('INVALID_REQUEST');
    }
  });

  it('are limited per user; expired ones do not count', async () => {
    const { clock, set } = handClock(1000);
    const access = await openedAccess(open, { clock });
    const { principal } = await newUser(access, 'ada');
    for (let count = 1; count < 200; count += 1) {
      await access.tokens.create(principal, { name: `${count}`, ...(count === 1 ? { expiresInMs: 10 } : {}) });
    }
    const error = await failureOf(access.tokens.create(principal, { name: 'more' }));
    expect(error).toMatchObject({ code: 'QUOTA_EXCEEDED', details: { quota: 'tokens', limit: 200 } });
    set(2000);
    await access.tokens.create(principal, { name: 'more' });
    await newUser(access, 'bob');
  });
}
