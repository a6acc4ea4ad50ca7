/** Clients that read make room for each other; those that read nothing are cut if others need it. */

import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { UnreadLimit } from './unread-limit.ts';

const MOST = 1000;
/** A client that has read nothing for this long makes room for others. */
const STALLED_MS = 1001;

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** Clients of one user. */
function userClients(limit = new UnreadLimit(MOST), userId = 'ada') {
  const cut: string[] = [];
  const open = (name: string) => {
    const client = limit.open(userId, () => {
      cut.push(name);
      client[Symbol.dispose]();
    });
    return client;
  };
  return { open, cut, limit };
}

/** Whether it has room by now. */
async function isSettled(work: Promise<unknown>): Promise<boolean> {
  return await Promise.race([work.then(() => true), vi.advanceTimersByTimeAsync(0).then(() => false)]);
}

test('room is there at once up to the limit, then when others have read', async () => {
  const { open, cut } = userClients();
  const [one, other] = [open('one'), open('other')];
  one.resize(600);
  expect([one.isFull, await isSettled(other.reserve(400))]).toEqual([false, true]);
  const waiting = other.reserve(100);
  expect([one.isFull, await isSettled(waiting)]).toEqual([true, false]);
  one.resize(500);
  expect(await isSettled(waiting)).toBe(true);
  expect(cut).toEqual([]);
});

test('who came first gets room first, and what is given back is room for others', async () => {
  const { open } = userClients();
  const order: string[] = [];
  const first = await open('first').reserve(900);
  const [second, third] = [open('second').reserve(500), open('third').reserve(10)];
  void second.then(() => order.push('second'));
  void third.then(() => order.push('third'));
  expect(await isSettled(third)).toBe(false);
  first?.resize(400);
  await Promise.all([second, third]);
  expect(order).toEqual(['second', 'third']);
});

test('more than the limit is given to one client alone', async () => {
  const { open } = userClients();
  using large = await open('large').reserve(2 * MOST);
  const other = open('other').reserve(1);
  expect(await isSettled(other)).toBe(false);
  large?.[Symbol.dispose]();
  expect(await isSettled(other)).toBe(true);
});

test('of clients that read nothing, those that have waited longest are cut, and only as many as others need room', async () => {
  const { open, cut } = userClients();
  for (const name of ['first', 'second', 'third']) {
    open(name).resize(333);
    await vi.advanceTimersByTimeAsync(10);
  }
  await vi.advanceTimersByTimeAsync(60_000);
  expect(cut).toEqual([]);
  const waiting = open('other').reserve(500);
  await vi.advanceTimersByTimeAsync(STALLED_MS);
  expect(cut).toEqual(['first', 'second']);
  expect(await isSettled(waiting)).toBe(true);
});

test('clients that read, and those that hold only what they read from, are not cut', async () => {
  const { open, cut } = userClients();
  const reading = open('reading');
  reading.resize(700);
  using _page = await open('page').reserve(300);
  const waiting = open('other').reserve(500);
  for (let bytes = 699; bytes > 600; bytes--) {
    await vi.advanceTimersByTimeAsync(500);
    reading.resize(bytes);
  }
  expect([await isSettled(waiting), cut]).toEqual([false, []]);
});

test('a client that cannot be cut stays', async () => {
  const { open, cut, limit } = userClients();
  limit.open('ada').resize(600);
  open('one').resize(400);
  const waiting = open('other').reserve(100);
  await vi.advanceTimersByTimeAsync(STALLED_MS);
  expect([await isSettled(waiting), cut]).toEqual([true, ['one']]);
});

test('a client that is cut counts until it is closed, and no other is cut in its place', async () => {
  const limit = new UnreadLimit(MOST);
  const cut = vi.fn<() => void>();
  const slow = limit.open('ada', cut);
  slow.resize(600);
  const { open, cut: others } = userClients(limit);
  open('one').resize(400);
  const waiting = open('other').reserve(100);
  await vi.advanceTimersByTimeAsync(3 * STALLED_MS);
  expect([cut.mock.calls.length, others, await isSettled(waiting)]).toEqual([1, [], false]);
  slow[Symbol.dispose]();
  expect(await isSettled(waiting)).toBe(true);
});

test('data that is in memory already makes room for itself at once', async () => {
  const { open, cut, limit } = userClients();
  open('one').resize(500);
  open('two').resize(500);
  const newest = vi.fn<() => void>();
  limit.hold('ada', 400, newest);
  expect(cut).toEqual(['one']);
  limit.hold('ada', 2 * MOST, newest);
  expect([cut, newest.mock.calls.length]).toEqual([['one', 'two'], 1]);
});

test('a client that no longer waits, or has gone, holds nothing', async () => {
  const { open, limit } = userClients();
  const [holding, waiting, gone] = [open('holding'), open('waiting'), open('gone')];
  holding.resize(MOST);
  const over = new AbortController();
  const reserved = [waiting.reserve(MOST, over.signal), gone.reserve(MOST)];
  over.abort();
  gone[Symbol.dispose]();
  holding[Symbol.dispose]();
  expect(await Promise.all(reserved)).toEqual([undefined, undefined]);
  gone.resize(MOST);
  using _last = limit.open('ada');
  expect([_last.isFull, await isSettled(_last.reserve(MOST))]).toEqual([false, true]);
});

test('a client that goes waits no longer, whoever is before it', async () => {
  const { open } = userClients();
  open('holding').resize(MOST);
  const first = open('first').reserve(1);
  const gone = open('gone');
  const waiting = gone.reserve(1);
  gone[Symbol.dispose]();
  expect([await isSettled(waiting), await isSettled(first)]).toEqual([true, false]);
  expect(await gone.reserve(1)).toBeUndefined();
});

test('a client that goes while it holds data and waits for more gets none of what it gives back', async () => {
  const { open } = userClients();
  open('holding').resize(500);
  const gone = open('gone');
  gone.resize(500);
  const waiting = gone.reserve(400);
  gone[Symbol.dispose]();
  expect(await waiting).toBeUndefined();
  expect(await isSettled(open('other').reserve(500))).toBe(true);
});

test('users have limits of their own', async () => {
  const limit = new UnreadLimit(MOST);
  userClients(limit, 'ada').open('one').resize(MOST);
  expect(await isSettled(userClients(limit, 'bob').open('one').reserve(MOST))).toBe(true);
});
