/**
 * Keeps the event loop from sleeping for a moment after a cell was sent: waking a process that sleeps takes longer than a
 * small cell does. A cell that takes longer is waited for asleep.
 */

import { availableParallelism } from 'node:os';

/** A little longer than a small cell takes, there and back. */
const MOMENT_MS = 0.4;
/** The same for the first cell of a kernel, which has to find its memory and its processor. */
const FIRST_MOMENT_MS = 1;
/** Where there is no other processor, whoever stays awake keeps the kernel from its work. */
const ALONE = availableParallelism() < 2;

const waiting = new Map<object, number>();
let awake = false;

export function watchFor(kernel: object, first: boolean): void {
  if (ALONE) return;
  waiting.set(kernel, performance.now() + (first ? FIRST_MOMENT_MS : MOMENT_MS));
  if (awake) return;
  awake = true;
  setImmediate(look);
}

/** It has answered, or never will. */
export function stopWatching(kernel: object): void {
  waiting.delete(kernel);
}

/** While an immediate waits, the loop looks for input without going to sleep. */
function look(): void {
  const now = performance.now();
  for (const [kernel, until] of waiting) if (now > until) waiting.delete(kernel);
  awake = waiting.size > 0;
  if (awake) setImmediate(look);
}
