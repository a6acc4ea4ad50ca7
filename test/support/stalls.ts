/** How long an event loop stands still: this process's own, or that of a server in another process. */

import { Agent, get } from 'node:http';
import { setTimeout as wait } from 'node:timers/promises';
import { expect } from 'vitest';

/** No work may stop an event loop for longer than this on a quiet machine. */
const LIMIT_MS = 50;
const TICK_MS = 2;

/** One round of a probe; resolves as soon as the event loop under test has had a turn. */
export type Probe = () => Promise<unknown>;

/** This process's own event loop. */
export const ownLoop: Probe = () => wait(TICK_MS);

/** The event loop of a server, by the route that does least. */
export function serverLoop(url: string): Probe {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const health = new URL('/health', url);
  return async () => {
    await new Promise<void>((resolve, reject) => {
      get(health, { agent }, (response) => response.resume().once('end', resolve)).once('error', reject);
    });
  };
}

/** The longest that the event loop stood still while the work ran, in milliseconds. */
export async function longestStall(work: () => Promise<unknown>, probe: Probe = ownLoop): Promise<number> {
  let longest = 0;
  let over = false;
  const watch = async () => {
    // A stall that ends together with the work is seen by the last round, which begins before the work is over.
    while (!over) {
      const begun = performance.now();
      await probe();
      longest = Math.max(longest, performance.now() - begun);
      if (probe !== ownLoop) await wait(TICK_MS);
    }
  };
  await probe();
  const watching = watch();
  try {
    await work();
  } finally {
    over = true;
    await watching;
  }
  return Math.max(0, longest - (probe === ownLoop ? TICK_MS : 0));
}

/**
 * Fails if the work stalls the event loop twice in a row: for longer than 50 ms plus three times the longest stall of the
 * same loop while it is idle, measured right before. Returns the shorter of the stalls that it measured.
 */
export async function expectNoStall(work: () => Promise<unknown>, probe: Probe = ownLoop): Promise<number> {
  const idle = await longestStall(() => wait(500), probe);
  const allowed = LIMIT_MS + 3 * idle;
  let stall = await longestStall(work, probe);
  if (stall > allowed) stall = Math.min(stall, await longestStall(work, probe));
  expect(stall, `the longest stall in ms; idle it was ${idle.toFixed(1)}`).toBeLessThanOrEqual(allowed);
  return stall;
}
