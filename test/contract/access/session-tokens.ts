/** Tokens of runners: each is valid for one turn, and ends with it. */

import { expect, it } from 'vitest';
import type { AccessControl } from '../../../src/server/access/access-control.ts';
import { failureOf, type OpenStorage } from '../storage/samples.ts';
import { accessPlace, handClock, newUser, openedAccess } from './samples.ts';

const binding = { session: 'ses_1', turn: 'trn_1', runner: 'rnr_1' };
const refusal = async (access: AccessControl, token: string) =>
  (await failureOf(access.sessionTokens.check(token))).details;

export function sessionTokenContract(open: OpenStorage): void {
  it('carry what they are bound to, also on another server and after a restart', async () => {
    const { again } = accessPlace(open);
    const { access } = await again();
    const { principal } = await newUser(access, 'ada');
    const token = await access.sessionTokens.issue(principal, binding);
    expect(token).toMatch(/^cst_[a-z2-7]{16}_[A-Za-z0-9_-]{43}$/);
    const { access: other } = await again();
    expect(await other.sessionTokens.check(token)).toEqual({ ...binding, userId: principal.userId });
    expect(await access.sessionTokens.check(token, binding)).toEqual({ ...binding, userId: principal.userId });
  });

  it('refuse a runner that forges another session’s id, and say so', async () => {
    const access = await openedAccess(open);
    const { principal } = await newUser(access, 'ada');
    const token = await access.sessionTokens.issue(principal, binding);
    const forged = { session: 'ses_2', turn: 'trn_2', runner: 'rnr_2', userId: 'local' };
    for (const [name, mismatch] of Object.entries({
      session: 'session',
      turn: 'turn',
      runner: 'runner',
      userId: 'user',
    })) {
      const wanted = { [name]: forged[name as keyof typeof forged] };
      const error = await failureOf(access.sessionTokens.check(token, wanted));
      expect(error).toMatchObject({ code: 'FORBIDDEN', details: { reason: 'binding', mismatch } });
      expect(JSON.stringify(error)).not.toContain(token.slice(-43));
    }
  });

  it('are refused if they are of another kind, forged, cut or combined from two', async () => {
    const access = await openedAccess(open);
    const user = await newUser(access, 'ada');
    const [one, two] = [
      await access.sessionTokens.issue(user.principal, binding),
      await access.sessionTokens.issue(user.principal, { ...binding, session: 'ses_2' }),
    ];
    const mixed = one.slice(0, 21) + two.slice(21);
    for (const text of ['', 'cst_', one.slice(0, -1), `${one}a`, ` ${one}`, mixed, one.toUpperCase(), user.token]) {
      expect(await refusal(access, text), text).toEqual({ reason: 'unknown' });
    }
    expect((await failureOf(access.authenticate(one))).code).toBe('UNAUTHENTICATED');
  });

  it('are refused after the end of the turn, from the next call on', async () => {
    const { again } = accessPlace(open);
    const [here, there] = [(await again()).access, (await again()).access];
    const { principal } = await newUser(here, 'ada');
    const old = await here.sessionTokens.issue(principal, binding);
    const next = await here.sessionTokens.issue(principal, { ...binding, turn: 'trn_2' });
    await here.sessionTokens.check(old);
    await there.sessionTokens.check(old);
    await there.sessionTokens.revoke('trn_1');
    for (const access of [here, there]) expect(await refusal(access, old)).toEqual({ reason: 'unknown' });
    expect((await here.sessionTokens.check(next)).turn).toBe('trn_2');
    await here.sessionTokens.revokeRunner('rnr_1');
    expect(await refusal(there, next)).toEqual({ reason: 'unknown' });
    // What was counted meanwhile brings none of them back.
    await Promise.all([here.close(), there.close()]);
    expect(await refusal(here, old)).toEqual({ reason: 'unknown' });
  });

  it('expire after a day or when they are ended, and are then removed', async () => {
    const { clock, set } = handClock(1_000_000);
    const { again } = accessPlace(open);
    const { access, storage } = await again({ clock });
    const { principal } = await newUser(access, 'ada');
    const day = await access.sessionTokens.issue(principal, binding);
    const short = await access.sessionTokens.issue(principal, binding, { ttlMs: 1000 });
    set(1_001_000);
    expect(await refusal(access, short)).toEqual({ reason: 'expired' });
    set(1_000_000 + 24 * 3_600_000 - 1);
    await access.sessionTokens.check(day);
    set(1_000_000 + 24 * 3_600_000);
    expect(await refusal(access, day)).toEqual({ reason: 'expired' });
    await access.sweep();
    expect((await storage.documents.list('session-tokens')).documents).toEqual([]);
  });

  it('with a limit allow no more calls than that, even with many at once on two servers', async () => {
    const { again } = accessPlace(open);
    const [here, there] = [(await again()).access, (await again()).access];
    const { principal } = await newUser(here, 'ada');
    const token = await here.sessionTokens.issue(principal, binding, { mostUses: 5 });
    const calls = Array.from({ length: 12 }, (_, index) => (index % 2 ? here : there).sessionTokens.check(token));
    // Whoever only looks takes nobody's call.
    await Promise.all(Array.from({ length: 6 }, () => here.sessionTokens.peek(token)));
    const outcomes = await Promise.allSettled(calls);
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(5);
    expect(await refusal(here, token)).toEqual({ reason: 'used_up' });
  });

  it('without a limit are counted, and their secret is not stored', async () => {
    const { again } = accessPlace(open);
    const { access, storage } = await again();
    const { principal } = await newUser(access, 'ada');
    const token = await access.sessionTokens.issue(principal, binding);
    await Promise.all(Array.from({ length: 20 }, () => access.sessionTokens.check(token)));
    await access.close();
    const { documents } = await storage.documents.list('session-tokens');
    expect(documents.map(({ value }) => value)).toMatchObject([{ uses: 20, session: 'ses_1' }]);
    expect(JSON.stringify(documents)).not.toContain(token.slice(-43));
  });

  it('are invalid after their user is disabled or deleted, or their session is deleted', async () => {
    const access = await openedAccess(open);
    const [ada, bob] = [await newUser(access, 'ada'), await newUser(access, 'bob')];
    const token = await access.sessionTokens.issue(ada.principal, binding);
    const other = await access.sessionTokens.issue(bob.principal, { ...binding, session: 'ses_2' });
    await access.users.update(access.localAdmin(), 'ada', { disabled: true });
    expect(await refusal(access, token)).toEqual({ reason: 'user' });
    await access.users.delete(access.localAdmin(), 'ada');
    expect(await refusal(access, token)).toEqual({ reason: 'unknown' });
    await access.sessionTokens.forgetSession('ses_2');
    expect(await refusal(access, other)).toEqual({ reason: 'unknown' });
  });
}
