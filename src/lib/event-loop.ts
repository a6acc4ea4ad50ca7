/**
 * Long work on the event loop, in slices. SQLite, JSON and schemas work synchronously, and awaiting what is already there
 * lets no timer and no socket run: a loop over many things calls `giveWay` for each of them.
 *
 * All such loops of this process share one slice per turn of the event loop. With a slice for each of them, a hundred
 * readers would stop it for a hundred slices. Those that wait take turns by whom they work for: a user with a hundred
 * scans has no more of it than one with a single scan.
 */

import { AsyncLocalStorage } from 'node:async_hooks';

/** A step may overrun it: what stops others is at most this and one step. */
const SLICE_MS = 8;

/** When the work of this turn of the event loop began. */
let begunAt: number | undefined;
const worksFor = new AsyncLocalStorage<string>();
/** By whom they work for; whose turn it is next comes first. */
const waiting = new Map<string, Array<() => void>>();

/** What the work does, also later, has its turns together with all else that is done for the same one. */
export function onBehalfOf<T>(whom: string, work: () => T): T {
  return worksFor.run(whom, work);
}

/** The function as part of the work that is going on now, whoever calls it later. */
export function bindContext<F extends (...given: never[]) => unknown>(work: F): F {
  return AsyncLocalStorage.bind(work) as F;
}

/** Waits for the next turn of the event loop if the slice of this one is used up. One waiter goes on in each turn. */
export async function giveWay(): Promise<void> {
  const now = performance.now();
  begin(now);
  if (now - (begunAt ?? now) >= SLICE_MS) await waitForTurn();
}

/** Waits for a turn of the event loop in which no other of these loops goes on: for a step of a millisecond or more. */
export async function ownTurn(): Promise<void> {
  begin(performance.now());
  await waitForTurn();
}

function begin(now: number): void {
  if (begunAt !== undefined) return;
  begunAt = now;
  setImmediate(turn);
}

async function waitForTurn(): Promise<void> {
  const whom = worksFor.getStore() ?? '';
  await new Promise<void>((resolve) => {
    const others = waiting.get(whom);
    if (others) others.push(resolve);
    else waiting.set(whom, [resolve]);
  });
}

function nextWaiter(): (() => void) | undefined {
  const [first] = waiting;
  if (!first) return undefined;
  const [whom, waiters] = first;
  const next = waiters.shift();
  // Whoever had a turn waits behind all others.
  waiting.delete(whom);
  if (waiters.length > 0) waiting.set(whom, waiters);
  return next;
}

function turn(): void {
  const next = nextWaiter();
  begunAt = next && performance.now();
  if (!next) return;
  setImmediate(turn);
  next();
}

/** The same items, with turns for others between them. */
export async function* inSlices<T>(items: Iterable<T>): AsyncGenerator<T, void, undefined> {
  for (const item of items) {
    await giveWay();
    yield item;
  }
}

/** Sorted at once, and merged before others have their turn. */
const RUN = 2000;

/** As `toSorted`, with turns for others while it sorts. */
export async function sortedInSlices<T>(items: readonly T[], compare: (one: T, other: T) => number): Promise<T[]> {
  let runs: T[][] = [];
  for (let at = 0; at < items.length; at += RUN) {
    await giveWay();
    runs.push(items.slice(at, at + RUN).sort(compare));
  }
  while (runs.length > 1) {
    const longer: T[][] = [];
    for (let at = 0; at < runs.length; at += 2) longer.push(await merged(runs[at] ?? [], runs[at + 1] ?? [], compare));
    runs = longer;
  }
  return runs[0] ?? [];
}

async function merged<T>(ones: T[], others: T[], compare: (one: T, other: T) => number): Promise<T[]> {
  const all: T[] = [];
  let [at, otherAt] = [0, 0];
  while (at < ones.length || otherAt < others.length) {
    if (all.length % RUN === 0) await giveWay();
    const isOther = at === ones.length || (otherAt < others.length && compare(ones[at] as T, others[otherAt] as T) > 0);
    all.push((isOther ? others[otherAt++] : ones[at++]) as T);
  }
  return all;
}
