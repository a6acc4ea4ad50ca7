/** Browser logins: by a code that works once or by a token, for a while, with a CSRF token. */

import { expect, it } from 'vitest';
import { failureOf, type OpenStorage } from '../storage/samples.ts';
import { accessPlace, handClock, newUser, openedAccess } from './samples.ts';

const DAY_MS = 24 * 3600 * 1000;

export function loginContract(open: OpenStorage): void {
  it('begin with a code that works once', async () => {
    const { again } = accessPlace(open);
    const { access } = await again();
    const { code } = await access.logins.createCode(access.localAdmin());
    const login = await (await again()).access.logins.redeem(code);
    expect(login.principal).toMatchObject({ userId: 'local', role: 'admin', authMethod: { kind: 'login' } });
    expect(await access.logins.authenticate(login.cookie)).toEqual(login.principal);
    expect((await failureOf(access.logins.redeem(code))).code).toBe('UNAUTHENTICATED');
    expect((await failureOf(access.logins.authenticate(code))).code).toBe('UNAUTHENTICATED');
    expect((await failureOf(access.authenticate(login.cookie))).code).toBe('UNAUTHENTICATED');
  });

  it('with the same code at the same time succeed once', async () => {
    const { again } = accessPlace(open);
    const [one, other] = [(await again()).access, (await again()).access];
    for (let round = 0; round < 5; round += 1) {
      const { code } = await one.logins.createCode(one.localAdmin());
      const logins = await Promise.allSettled(
        Array.from({ length: 10 }, (_, index) => (index % 2 ? one : other).logins.redeem(code)),
      );
      expect(logins.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    }
  });

  it('are refused for a code that is too old, or from before the clock was set back', async () => {
    const { clock, set } = handClock(100 * DAY_MS);
    const access = await openedAccess(open, { clock });
    const make = () => access.logins.createCode(access.localAdmin());
    const [late, early, fine] = [await make(), await make(), await make()];
    set(late.expiresAt);
    expect((await failureOf(access.logins.redeem(late.code))).code).toBe('UNAUTHENTICATED');
    set(50 * DAY_MS);
    expect((await failureOf(access.logins.redeem(early.code))).code).toBe('UNAUTHENTICATED');
    set(fine.expiresAt - 1);
    expect((await access.logins.redeem(fine.code)).principal.userName).toBe('local');
  });

  it('end by logout on every server, and after their time', async () => {
    const { clock, set } = handClock(100 * DAY_MS);
    const { again } = accessPlace(open);
    const [one, other] = [(await again({ clock })).access, (await again({ clock })).access];
    const { principal } = await newUser(one, 'ada');
    const [first, second] = [await one.logins.open(principal), await one.logins.open(principal)];
    expect(await other.logins.logout(first.cookie)).toBe(true);
    expect(await one.logins.logout(first.cookie)).toBe(false);
    expect((await failureOf(one.logins.authenticate(first.cookie))).code).toBe('UNAUTHENTICATED');
    set(second.expiresAt - 1);
    expect((await one.logins.authenticate(second.cookie)).userName).toBe('ada');
    set(second.expiresAt);
    expect((await failureOf(one.logins.authenticate(second.cookie))).code).toBe('UNAUTHENTICATED');
    await one.sweep();
    set(100 * DAY_MS);
    expect((await failureOf(one.logins.authenticate(second.cookie))).code).toBe('UNAUTHENTICATED');
  });

  it('with a token have its scopes, and end with it', async () => {
    const access = await openedAccess(open);
    const { principal } = await newUser(access, 'ada');
    const { token, info } = await access.tokens.create(principal, { name: 'look', scopes: ['view'] });
    const looker = await access.authenticate(token);
    const byToken = await access.logins.open(looker);
    const { code } = await access.logins.createCode(looker);
    const byCode = await access.logins.redeem(code);
    const { code: unused } = await access.logins.createCode(looker);
    for (const { principal: who } of [byToken, byCode]) {
      expect(who).toMatchObject({ userName: 'ada', scopes: ['view'], authMethod: { tokenId: info.id } });
    }
    await access.tokens.revoke(principal, info.id);
    for (const { cookie } of [byToken, byCode]) {
      expect((await failureOf(access.logins.authenticate(cookie))).code).toBe('UNAUTHENTICATED');
    }
    expect((await failureOf(access.logins.redeem(unused))).code).toBe('UNAUTHENTICATED');
    expect((await failureOf(access.logins.open(looker))).code).toBe('UNAUTHENTICATED');
  });

  it('cannot create other logins or tokens, so access ends with them', async () => {
    const access = await openedAccess(open);
    const { principal } = await newUser(access, 'ada');
    const login = await access.logins.open(principal);
    expect((await failureOf(access.logins.open(login.principal))).code).toBe('FORBIDDEN');
    expect((await failureOf(access.logins.createCode(login.principal))).code).toBe('FORBIDDEN');
    expect((await failureOf(access.tokens.create(login.principal, { name: 'x' }))).code).toBe('FORBIDDEN');
  });

  it('need the CSRF token of the same login', async () => {
    const access = await openedAccess(open);
    const { principal } = await newUser(access, 'ada');
    const [one, other] = [await access.logins.open(principal), await access.logins.open(principal)];
    expect(access.logins.csrfOf(one.cookie)).toBe(one.csrf);
    access.logins.checkCsrf(one.cookie, one.csrf);
    for (const given of [
      undefined,
      '',
      other.csrf,
      one.cookie,
      `${one.csrf} `,
      one.csrf.slice(1),
      'x'.repeat(100_000),
    ]) {
      expect(() => access.logins.checkCsrf(one.cookie, given)).toThrow(expect.objectContaining({ code: 'FORBIDDEN' }));
    }
  });

  it('are limited per user: new ones replace the oldest', async () => {
    const access = await openedAccess(open);
    const { principal } = await newUser(access, 'ada');
    const logins = [];
    for (let count = 0; count < 52; count += 1) logins.push(await access.logins.open(principal));
    const outcomes = await Promise.allSettled(logins.map(({ cookie }) => access.logins.authenticate(cookie)));
    expect(outcomes.map(({ status }) => status === 'fulfilled')).toEqual([false, false, ...Array(50).fill(true)]);
  });

  it('are refused for an invalid cookie or code', async () => {
    const access = await openedAccess(open);
    for (const text of ['', 'x', '../users/local', '\0', 'é'.repeat(43), 'a'.repeat(43), 'x'.repeat(1_000_000)]) {
      expect((await failureOf(access.logins.redeem(text))).code).toBe('UNAUTHENTICATED');
      expect((await failureOf(access.logins.authenticate(text))).code).toBe('UNAUTHENTICATED');
      expect(await access.logins.logout(text)).toBe(false);
    }
  });
}
