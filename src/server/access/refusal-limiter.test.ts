import { expect, test } from 'vitest';
import type { AuditEntry } from '../../protocol/access-models.ts';
import { networkOf, RefusalLimiter } from './refusal-limiter.ts';

const EVERY_MS = 60_000;

function refusals(most = 100) {
  const entries: AuditEntry[] = [];
  let now = 0;
  const made = new RefusalLimiter((entry) => entries.push(entry), {
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
