/** How the worker waits for the host: blocked, until there is what it waits for, time is up, or a signal has come. */

import type { Wires } from '../wires.ts';

export type Awaited = 'ready' | 'late' | 'signal';

/** A negative time is without end. */
export function waitUntil(wires: Wires, ready: () => boolean, timeoutMs = -1): Awaited {
  const until = timeoutMs < 0 ? Number.POSITIVE_INFINITY : performance.now() + timeoutMs;
  for (;;) {
    const since = wires.get('wake');
    if (ready()) return 'ready';
    if (wires.signal[0] !== 0) return 'signal';
    const left = until - performance.now();
    if (left <= 0) return 'late';
    wires.sleep(since, left);
  }
}
