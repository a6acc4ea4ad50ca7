/** Notes that storage did not take are written by the next one that it takes: none is lost with another's failure. */

import { expect, test } from 'vitest';
import type { AuditEntry } from '../../protocol/access-models.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { EventLog } from '../../storage/contract.ts';
import { AuditLog, networkOf, Refusals } from './audit-log.ts';

/** Of the log only what is added to it. */
function failingLog() {
  const log = { full: true, kept: [] as unknown[] };
  const events: Pick<EventLog, 'append'> = {
    append: async (_key, added) => {
      if (log.full) throw new CellaError('STORAGE_FAILED', 'the disk is full');
      return log.kept.push(...added);
    },
  };
  return { log, audit: new AuditLog(events as EventLog) };
}

const entryOf = (action: string) => ({ action, from: '127.0.0.1', outcome: 'ok' }) as const;

test('an entry that could not be written is written when there is room, before later ones', async () => {
  const { log, audit } = failingLog();
  await expect(audit.appendSoon(entryOf('one'))).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
  log.full = false;
  await audit.append(entryOf('two'));
  expect(log.kept).toMatchObject([{ action: 'one' }, { action: 'two' }]);
});

test('an entry is not lost if another user’s entry fails', async () => {
  const { log, audit } = failingLog();
  const noted = audit.appendSoon(entryOf('noted'));
  await expect(audit.append(entryOf('refused'))).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
  log.full = false;
  await noted;
  expect(log.kept).toMatchObject([{ action: 'noted' }]);
});

test('of too many waiting ones, the latest are kept', async () => {
  const { log, audit } = failingLog();
  const notes = Array.from({ length: 1200 }, (_, n) => audit.appendSoon(entryOf(`n${n}`)));
  await Promise.allSettled(notes);
  log.full = false;
  await audit.flush();
  expect(log.kept).toHaveLength(1000);
  expect(log.kept.at(-1)).toMatchObject({ action: 'n1199' });
});

const EVERY_MS = 60_000;

function refusals(most = 100) {
  const entries: AuditEntry[] = [];
  let now = 0;
  const made = new Refusals((entry) => entries.push(entry), {
    ...{ burst: 3, burstOfUnknown: 5, everyMs: EVERY_MS, most },
    elapsed: () => now,
  });
  const pass = (ms: number) => {
    now += ms;
  };
  const total = () => entries.reduce((sum, { suppressed = 0 }) => sum + 1 + suppressed, 0);
  return { made, entries, pass, total };
}

const ada = { userId: 'ada~aaaaaaaaaaaa', from: '::1' };
const bob = { userId: 'bob~bbbbbbbbbbbb', from: '::1' };

test('a flood of one user is a few entries, and the next one says how many were suppressed', () => {
  const { made, entries, pass } = refusals();
  for (let count = 0; count < 10_000; count++) made.refused({ kind: 'path', ...ada });
  expect(entries).toHaveLength(3);
  pass(EVERY_MS);
  made.refused({ kind: 'path', ...ada, detail: 'later' });
  expect(entries.at(-1)).toMatchObject({ kind: 'path', outcome: 'refused', detail: 'later', suppressed: 9997 });
  expect(made.counts.get('path')).toBe(10_001);
});

test('a flood of one user takes no entry from another, nor from another kind of the same', () => {
  const { made, entries } = refusals();
  for (let count = 0; count < 100; count++) made.refused({ kind: 'path', ...ada });
  made.refused({ kind: 'path', ...bob });
  made.refused({ kind: 'forbidden', ...ada });
  expect(entries.slice(3)).toMatchObject([{ userId: bob.userId }, { userId: ada.userId, kind: 'forbidden' }]);
});

test('more addresses do not give more entries, and no refusal is missing in the sum', () => {
  const { made, entries, total } = refusals(20);
  for (let count = 0; count < 5000; count++) made.refused({ kind: 'token', from: `10.0.${count >> 8}.${count & 255}` });
  expect(entries).toHaveLength(5);
  made.flush();
  expect(entries.length).toBeLessThan(30);
  expect(total()).toBe(5000);
});

test('suppressed ones are reported at the end, once', () => {
  const { made, entries, total } = refusals();
  for (let count = 0; count < 10; count++) made.refused({ kind: 'proxy', session: 'ses_1', detail: 'host' });
  made.flush();
  made.flush();
  expect(entries.at(-1)).toMatchObject({ action: 'refused', detail: 'host', suppressed: 6 });
  expect(total()).toBe(10);
});

test.each([
  ['192.0.2.7', '192.0.2.7'],
  ['::ffff:192.0.2.7', '::ffff:192.0.2.7'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
  ['2001:db8::1', '2001:db8:0:0::/64'],
  ['fe80::1%eth0', 'fe80:0:0:0::/64'],
  ['::1', '0:0:0:0::/64'],
  ['local', 'local'],
])('the network of %s is %s', (address, network) => {
  expect(networkOf(address)).toBe(network);
});
