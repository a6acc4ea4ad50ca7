/**
 * Long work on the event loop, in slices. SQLite, JSON and schemas work synchronously, and awaiting what is already there
 * lets no timer and no socket run: a loop over many things calls `giveWay` for each of them.
 *
 * All such loops of this process share one slice per turn of the event loop. With a slice for each of them, a hundred
 * readers would stop it for a hundred slices.
 */

/** A step may overrun it: what stops others is at most this and one step. */
const SLICE_MS = 8;

/** When the work of this turn of the event loop began. */
let begunAt: number | undefined;
const waiting: Array<() => void> = [];

/** Waits for the next turn of the event loop if the slice of this one is used up. One waiter goes on in each turn. */
export async function giveWay(): Promise<void> {
  const now = performance.now();
  if (begunAt === undefined) {
    begunAt = now;
    setImmediate(turn);
  }
  if (now - begunAt < SLICE_MS) return;
  await new Promise<void>((resolve) => waiting.push(resolve));
}

function turn(): void {
  const next = waiting.shift();
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
