/**
 * Shares the event loop. SQLite, JSON and schemas work synchronously, and awaiting a value that is already available lets
 * no timer or socket run. A loop over many items therefore calls `giveWay` for each item.
 *
 * All such loops of this process share one slice per turn of the event loop: if each had its own slice, a hundred readers
 * would block the event loop for a hundred slices. Waiting loops take turns by user, so a user with a hundred scans gets
 * no more time than a user with one scan.
 */
import { AsyncLocalStorage } from 'node:async_hooks';

/** One step may overrun the slice, so others are blocked for at most a slice and a step. */
const SLICE_MS = 8;

/** When work began in this turn of the event loop. */
let begunAt: number | undefined;
const worksFor = new AsyncLocalStorage<string>();
/** By user; the next user to get a turn comes first. */
const waiting = new Map<string, Array<() => void>>();

/** Runs `work` on behalf of a user. All its steps, including later ones, share that user's turns. */
export function onBehalfOf<T>(whom: string, work: () => T): T {
  return worksFor.run(whom, work);
}

/** Binds the function to the user of the current work, no matter who calls it later. */
export function bindContext<F extends (...given: never[]) => unknown>(work: F): F {
  return AsyncLocalStorage.bind(work) as F;
}

/** Waits for the next turn of the event loop if this turn's slice is used up. One waiter continues per turn. */
export async function giveWay(): Promise<void> {
  const now = performance.now();
  begin(now);
  if (now - (begunAt ?? now) >= SLICE_MS) await waitForTurn();
}

/** Waits for a turn of the event loop that no other such loop uses. For steps of a millisecond or more. */
export async function ownTurn(): Promise<void> {
  begin(performance.now());
  await waitForTurn();
}

/** Runs a generator that yields at points where it may pause. */
export async function inTurns<T>(work: Generator<undefined, T>): Promise<T> {
  for (;;) {
    const { done, value } = work.next();
    if (done) return value;
    await giveWay();
  }
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
  // A user who just had a turn moves to the end of the queue.
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

/** Yields the items and lets other work run between them. */
export async function* inSlices<T>(items: Iterable<T>): AsyncGenerator<T, void, undefined> {
  for (const item of items) {
    await giveWay();
    yield item;
  }
}

/** How many items are sorted or merged in one step. */
const RUN = 2000;

/** Like `toSorted`, but lets other work run while it sorts. */
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

/** CPU time of this thread in milliseconds. Time in which other processes ran does not count. */
export function workedMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}
