/** How long an event loop stands still: this process's own, or that of a server in another process. */

import { readdirSync, readFileSync } from 'node:fs';
import { Agent, get } from 'node:http';
import { setTimeout as wait } from 'node:timers/promises';
import { expect } from 'vitest';

/** No work may stop an event loop for longer than this on a quiet machine. */
const LIMIT_MS = 50;
const TICK_MS = 2;

/**
 * One round of a probe: resolves as soon as the event loop under test has had a turn, with the milliseconds of it that went
 * by because other processes had the processor. These are no stall.
 */
export type Probe = () => Promise<number>;

/** This process's own event loop. */
export const ownLoop: Probe = () => withoutProcessor(() => wait(TICK_MS));

/**
 * How long the main threads of this process and of another were ready to run and did not, and those that they may have waited
 * for: V8 collects garbage with several threads, and the main one waits for the slowest. 0 where nobody tells.
 */
async function withoutProcessor(work: () => Promise<unknown>, pid?: number): Promise<number> {
  const processes = [process.pid, ...(pid === undefined ? [] : [pid])];
  const before = processes.map(waitsOf);
  await work();
  return processes.reduce((total, one, at) => {
    const waited = [...waitsOf(one)].map(([thread, ms]) => [thread, ms - (before[at]?.get(thread) ?? ms)] as const);
    const helpers = waited.filter(([thread]) => thread !== String(one)).map(([, ms]) => ms);
    return total + (new Map(waited).get(String(one)) ?? 0) + Math.max(0, ...helpers);
  }, 0);
}

/** Milliseconds, by thread. */
function waitsOf(pid: number): Map<string, number> {
  const waits = new Map<string, number>();
  try {
    for (const thread of readdirSync(`/proc/${pid}/task`)) {
      const [, nanoseconds] = readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ');
      waits.set(thread, Number(nanoseconds) / 1e6);
    }
  } catch {
    // Not Linux, or the process or thread has ended.
  }
  return waits;
}

/** The event loop of a server, by the route that does least. `pid`: of its process. */
export function serverLoop(url: string, pid?: number): Probe {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const health = new URL('/health', url);
  const ask = () =>
    new Promise<void>((resolve, reject) => {
      get(health, { agent }, (response) => response.resume().once('end', resolve)).once('error', reject);
    });
  return () => withoutProcessor(ask, pid);
}

/** The longest that the event loop stood still while the work ran, in milliseconds. */
export async function longestStall(work: () => Promise<unknown>, probe: Probe = ownLoop): Promise<number> {
  let longest = 0;
  let over = false;
  const watch = async () => {
    // A stall that ends together with the work is seen by the last round, which begins before the work is over.
    while (!over) {
      const begun = performance.now();
      const waited = await probe();
      longest = Math.max(longest, performance.now() - begun - waited);
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
