/** Keeps the event loop awake briefly after a cell was sent: to wake a sleeping process takes longer than a small cell. */

import { availableParallelism } from 'node:os';

/** A little longer than a small cell takes, there and back. */
const SPIN_MS = 0.4;
/** The same for the first cell of a kernel, which has to find its memory and its processor. */
const FIRST_SPIN_MS = 1;
/** Where there is no other processor, whoever stays awake keeps the kernel from its work. */
const SINGLE_PROCESSOR = availableParallelism() < 2;

const waiting = new Map<object, number>();
let awake = false;

export function spinBriefly(kernel: object, first: boolean): void {
  if (SINGLE_PROCESSOR) return;
  waiting.set(kernel, performance.now() + (first ? FIRST_SPIN_MS : SPIN_MS));
  if (awake) return;
  awake = true;
  setImmediate(spin);
}

/** It has answered, or never will. */
export function stopSpinning(kernel: object): void {
  waiting.delete(kernel);
}

/** While an immediate waits, the loop looks for input without going to sleep. */
function spin(): void {
  const now = performance.now();
  for (const [kernel, until] of waiting) if (now > until) waiting.delete(kernel);
  awake = waiting.size > 0;
  if (awake) setImmediate(spin);
}
