/** The audit log: everything in order, for admins alone, out of the reach of every agent key. */

import { expect, it } from 'vitest';
import type { AuditEntry } from '../../../src/protocol/access-models.ts';
import { AgentKey } from '../../../src/protocol/session-info.ts';
import { AUDIT_KEY } from '../../../src/server/access/audit-log.ts';
import { failureOf, type OpenStorage } from '../storage/samples.ts';
import { accessPlace, handClock, newUser, openedAccess } from './samples.ts';

const entryOf = (action: string, more: Partial<AuditEntry> = {}): AuditEntry => ({
  action,
  from: '127.0.0.1',
  outcome: 'ok',
  ...more,
});

export function auditContract(open: OpenStorage): void {
  it('records who did what to which session, when, from where and with which outcome', async () => {
    const { clock, set } = handClock(1000);
    const { again } = accessPlace(open);
    const { access } = await again({ clock });
    const whole: AuditEntry = {
      userId: 'ada~aaaaaaaaaaaa',
      userName: 'ada',
      credential: 'token abc',
      action: 'session.execute',
      session: 'ses_1',
      target: 'cell 3',
      from: '::1',
      outcome: 'refused',
      code: 'FORBIDDEN',
    };
    await access.audit.append(whole);
    set(500);
    await access.audit.append(entryOf('login'));
    const other = (await again()).access;
    expect((await other.audit.page(other.localAdmin())).entries).toEqual([
      { seq: 1, at: 1000, ...whole },
      { seq: 2, at: 500, ...entryOf('login') },
    ]);
  });

  it('is numbered without gaps by several servers, and read in pages', async () => {
    const { again } = accessPlace(open);
    const [access, other] = [(await again()).access, (await again()).access];
    await Promise.all(
      Array.from({ length: 40 }, (_, index) =>
        (index % 2 ? access : other).audit.append(
          entryOf(`a${index}`, { session: `ses_${index % 4}`, userId: 'local' }),
        ),
      ),
    );
    const records = (await access.audit.page(access.localAdmin())).entries;
    expect(records.map(({ seq }) => seq)).toEqual(Array.from({ length: 40 }, (_, index) => index + 1));
    expect((await access.audit.page(access.localAdmin(), { after: 30, limit: 5 })).entries).toEqual(
      records.slice(30, 35),
    );
    const ofOne = (await access.audit.page(access.localAdmin(), { session: 'ses_3', limit: 4 })).entries;
    expect(ofOne).toEqual(records.filter(({ session }) => session === 'ses_3').slice(0, 4));
    expect((await access.audit.page(access.localAdmin(), { userId: 'bob~bbbbbbbbbbbb' })).entries).toEqual([]);
  });

  it('can be read only by admins', async () => {
    const access = await openedAccess(open);
    const { principal } = await newUser(access, 'ada');
    const attempt = async () => access.audit.page(principal);
    expect((await failureOf(attempt())).code).toBe('FORBIDDEN');
  });

  it('truncates long texts, so that nobody can fill the disk with a path', async () => {
    const access = await openedAccess(open);
    await access.audit.append(entryOf('file.read', { target: `${'é'.repeat(1_000_000)}\ud800` }));
    const [record] = (await access.audit.page(access.localAdmin())).entries;
    expect(record?.target).toBe('é'.repeat(300));
  });

  it('is stored under a key that no agent key can have', async () => {
    const { again } = accessPlace(open);
    const { access, storage } = await again();
    await access.audit.append(entryOf('login'));
    expect(AgentKey.safeParse(AUDIT_KEY).success).toBe(false);
    for (const key of ['audit', '', 'default', '\u2400audit', ' audit']) await storage.deleteKey(key);
    expect((await access.audit.page(access.localAdmin())).entries).toHaveLength(1);
  });

  it('is limited in size; the oldest entries are removed first', async () => {
    const access = await openedAccess(open, { auditLimits: { maxEvents: 3 } });
    for (let count = 0; count < 10; count += 1) await access.audit.append(entryOf(`a${count}`));
    await access.sweep();
    expect((await access.audit.page(access.localAdmin())).entries.map(({ seq }) => seq)).toEqual([8, 9, 10]);
  });
}
