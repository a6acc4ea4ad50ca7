/** How long an event loop stands still: this process's own, or that of a server in another process. */

import { readdirSync, readFileSync } from 'node:fs';
import { Agent, get } from 'node:http';
import { setTimeout as wait } from 'node:timers/promises';
import { expect } from 'vitest';

/** No work may stop an event loop for longer than this on a quiet machine. */
const LIMIT_MS = 50;
/** Of what an event loop works, this much counts however busy the machine is: with cold caches everything takes longer. */
const CERTAIN = 0.5;
const TICK_MS = 2;

/** One round of a probe: resolves as soon as the event loop under test has had a turn. */
export type Probe = () => Promise<Round>;

/** Where the time of a round went, in milliseconds. On a machine where nobody tells: nothing of both. */
interface Round {
  /** Other processes had the processor: no stall. */
  readonly withheld: number;
  /** The event loop itself worked. */
  readonly worked: number;
}

/** This process's own event loop. */
export const ownLoop: Probe = () => observed(() => wait(TICK_MS), process.pid);

/**
 * Looks at the main threads of this process and of the one under test, and at those that they may have waited for: V8 collects
 * garbage with several threads, and the main one waits for the slowest.
 */
async function observed(work: () => Promise<unknown>, tested: number | undefined): Promise<Round> {
  const processes = [...new Set([process.pid, tested ?? process.pid])];
  const before = processes.map(timesOf);
  await work();
  let [withheld, worked] = [0, 0];
  for (const [at, one] of processes.entries()) {
    const passed = [...timesOf(one)].map(([thread, times]) => {
      const earlier = before[at]?.get(thread) ?? times;
      return {
        isMain: thread === String(one),
        worked: times.worked - earlier.worked,
        waited: times.waited - earlier.waited,
      };
    });
    const main = passed.find(({ isMain }) => isMain);
    withheld +=
      (main?.waited ?? 0) + Math.max(0, ...passed.filter(({ isMain }) => !isMain).map(({ waited }) => waited));
    if (one === tested) worked = main?.worked ?? 0;
  }
  return { withheld, worked };
}

/** How long each thread has run, and was ready to run and did not, in milliseconds. */
function timesOf(pid: number): Map<string, { readonly worked: number; readonly waited: number }> {
  const times = new Map<string, { worked: number; waited: number }>();
  try {
    for (const thread of readdirSync(`/proc/${pid}/task`)) {
      const [worked, waited] = readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ');
      times.set(thread, { worked: Number(worked) / 1e6, waited: Number(waited) / 1e6 });
    }
  } catch {
    // Not Linux, or the process or thread has ended.
  }
  return times;
}

/** The event loop of a server, by the route that does least. `pid`: of its process. */
export function serverLoop(url: string, pid?: number): Probe {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const health = new URL('/health', url);
  const ask = () =>
    new Promise<void>((resolve, reject) => {
      get(health, { agent }, (response) => response.resume().once('end', resolve)).once('error', reject);
    });
  return () => observed(ask, pid);
}

/** The longest that the event loop stood still while the work ran, in milliseconds. */
export async function longestStall(work: () => Promise<unknown>, probe: Probe = ownLoop): Promise<number> {
  let longest = 0;
  let over = false;
  const watch = async () => {
    // A stall that ends together with the work is seen by the last round, which begins before the work is over.
    while (!over) {
      const begun = performance.now();
      const { withheld, worked } = await probe();
      longest = Math.max(longest, performance.now() - begun - withheld, CERTAIN * worked);
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
