/** One session that tells a thousand things a second, and many that follow it: each must get all of them, and in time. */

import { setTimeout as delay } from 'node:timers/promises';
import type { Cella } from '../support/cli/command.ts';
import { Served } from '../support/servers/serve-process.ts';
import { Follower } from './follower.ts';

export interface Fanout {
  readonly cella: Cella;
  readonly followers: number;
  readonly perSecond: number;
  readonly seconds: number;
  readonly flags?: readonly string[];
  readonly progress: (line: string) => void;
}

export interface FanoutReport {
  /** What each of them got. */
  readonly events: number;
  /** Events a second of the slowest of them, from its first to its last. */
  readonly slowestPerSecond: number;
  /** How long after the code's end the last of them had everything. */
  readonly behindMs: number;
  readonly serverMb: number;
}

/** Each display is an event of its own: output is put together on its way. */
const code = (count: number, perSecond: number) => `import time
begin = time.monotonic()
for n in range(${count}):
    display(n)
    if n % 10 == 0: time.sleep(max(0, begin + n / ${perSecond} - time.monotonic()))`;

export async function fanoutSoak(options: Fanout): Promise<FanoutReport> {
  const { cella, followers: many, perSecond, seconds, flags = [], progress } = options;
  await using served = await Served.start(cella, flags);
  const { url, token } = served;
  const { id: session } = await served.ask<{ id: string }>('POST /v1/sessions', { body: { agentKey: 'fanout' } });
  await served.ask(`POST /v1/sessions/${session}/execute`, { body: { code: 'pass' } });
  const { last: after } = await served.ask<{ last: number }>(`GET /v1/sessions/${session}/events?limit=1`);
  const readers = Array.from({ length: many }, () => new Reader(url, token, session, after));
  await Promise.all(readers.map(({ follower }) => follower.opened));
  const count = perSecond * seconds;
  progress(`${many} clients follow ${count} events, ${perSecond} a second`);
  const body = { code: code(count, perSecond), timeoutMs: seconds * 10_000 };
  const running = served.ask<{ status: string }>(`POST /v1/sessions/${session}/execute`, { body });
  const tick = setInterval(() => progress(`the first has ${readers[0]?.displays} of ${count}`), 5000);
  const { status } = await running.finally(() => clearInterval(tick));
  if (status !== 'ok') throw new Error(`the code ended with ${status}`);
  const ended = performance.now();
  const { last } = await served.ask<{ last: number }>(`GET /v1/sessions/${session}/events?limit=1`);
  await Promise.race([Promise.all(readers.map(({ follower }) => follower.reached(last))), late(seconds)]);
  const behindMs = performance.now() - ended;
  for (const { follower, displays } of readers) {
    if (follower.disorder) throw follower.disorder;
    if (displays !== count) throw new Error(`a follower got ${displays} of ${count}`);
    follower[Symbol.dispose]();
  }
  const slowestPerSecond = Math.min(...readers.map((reader) => reader.perSecond));
  return { events: count, slowestPerSecond, behindMs, serverMb: served.residentMb };
}

class Reader {
  readonly follower: Follower;
  displays = 0;
  #first = 0;
  #last = 0;

  constructor(url: string, token: string, session: string, after: number) {
    const onEvent = ({ type }: { type: string }) => {
      if (type !== 'display') return;
      this.#last = performance.now();
      if (this.displays++ === 0) this.#first = this.#last;
    };
    this.follower = new Follower({ url, token, session, after, onEvent });
  }

  get perSecond(): number {
    return ((this.displays - 1) / (this.#last - this.#first)) * 1000;
  }
}

async function late(seconds: number): Promise<never> {
  await delay(seconds * 1000, undefined, { ref: false });
  throw new Error(`${seconds} s after the end of the code not everybody had all events`);
}
