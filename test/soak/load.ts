/**
 * Many sessions on one server, some of them at work all the time: every client runs cells in one session after another,
 * follows each on a WebSocket, and at the end finds in its log what it was told. The server's memory must come to rest.
 */

import { setTimeout as delay } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { percentile } from '../../bench/statistics.ts';
import type { Cella } from '../support/cli/command.ts';
import { Served } from '../support/servers/serve-process.ts';
import { Follower } from './follower.ts';
import { checkEndings, readLog } from './log.ts';
import { WATCHED, Watch } from './memory.ts';

export interface Load {
  readonly cella: Cella;
  readonly sessions: number;
  readonly clients: number;
  readonly seconds: number;
  readonly flags?: readonly string[];
  readonly progress: (line: string) => void;
}

export interface LoadReport {
  readonly executions: number;
  readonly events: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** The resident memory of the server, without the garbage that lies in it. */
  readonly halfMb: number;
  readonly endMb: number;
  /** In the second half: 0.1 is a tenth. */
  readonly growth: number;
}

/** Cells in a session before its client goes on to the next. */
const CELLS = 25;
const CODE = `n = globals().get('n', 0) + 1
print('cell', n)
n`;

interface Executed {
  readonly execution: string;
  readonly status: string;
  readonly value: unknown;
}

/** One session as its client knows it. */
interface Known {
  readonly id: string;
  readonly acknowledged: Map<string, unknown>;
  last: number;
  cells: number;
}

class LoadClient {
  readonly #served: Served;
  readonly #token: string;
  readonly #sessions: readonly Known[];
  readonly times: number[] = [];
  events = 0;

  private constructor(served: Served, token: string, sessions: readonly Known[]) {
    this.#served = served;
    this.#token = token;
    this.#sessions = sessions;
  }

  /** A user with a token and sessions of its own, in each of which one cell has run. */
  static async prepare(served: Served, name: string, sessions: number): Promise<LoadClient> {
    await served.ask('POST /v1/users', { body: { name, role: 'member' } });
    const { token } = await served.ask<{ token: string }>('POST /v1/tokens', { body: { name: 'soak', user: name } });
    const known: Known[] = [];
    for (let index = 0; index < sessions; index++) {
      const body = { agentKey: `agent ${index}` };
      const { id } = await served.ask<{ id: string }>('POST /v1/sessions', { token, body });
      known.push({ id, acknowledged: new Map(), last: 0, cells: 0 });
    }
    const client = new LoadClient(served, token, known);
    for (const session of known) await client.#run(session);
    return client;
  }

  async work(over: () => boolean): Promise<void> {
    for (let turn = 0; !over(); turn++) {
      const session = this.#sessions[turn % this.#sessions.length];
      if (session) await this.#stay(session, over);
    }
  }

  /** What it was told is in the logs, and nothing else is. */
  async check(): Promise<void> {
    for (const session of this.#sessions) {
      const { id, acknowledged, cells } = session;
      const log = await readLog(this.#served, id, 0, this.#token);
      const endings = checkEndings(id, log);
      if (endings.size !== cells) throw new Error(`${id}: ${cells} cells were run, and ${endings.size} are in its log`);
      for (const [execution, value] of acknowledged) {
        const ending = endings.get(execution);
        if (ending?.type !== 'result' || !isDeepStrictEqual(ending.value, value)) {
          throw new Error(`${id}: ${execution} was told to be ${value}, and its log says ${JSON.stringify(ending)}`);
        }
      }
      this.events += log.length;
    }
  }

  async #stay(session: Known, over: () => boolean): Promise<void> {
    const { url } = this.#served;
    const told = new Map<string, number>();
    using follower = new Follower({ url, token: this.#token, session: session.id, after: session.last });
    await follower.opened;
    for (let cell = 0; cell < CELLS && !over(); cell++) {
      const execution = await this.#run(session);
      told.set(execution, session.cells);
    }
    const { last } = await this.#served.ask<{ last: number }>(`GET /v1/sessions/${session.id}/events?limit=1`, {
      token: this.#token,
    });
    await follower.reached(last);
    if (follower.disorder) throw follower.disorder;
    for (const event of follower.seen) if (event.type === 'result') told.delete(event.execution);
    if (told.size > 0) throw new Error(`${session.id}: a follower was not told of ${[...told.keys()].join(', ')}`);
    session.last = follower.last;
  }

  async #run(session: Known): Promise<string> {
    const began = performance.now();
    const path = `POST /v1/sessions/${session.id}/execute`;
    const { execution, status, value } = await this.#served.ask<Executed>(path, {
      token: this.#token,
      body: { code: CODE },
    });
    session.cells++;
    this.times.push(performance.now() - began);
    if (status !== 'ok' || value !== session.cells) {
      throw new Error(`${session.id}: cell ${session.cells} was ${status} and gave ${value}`);
    }
    session.acknowledged.set(execution, value);
    return execution;
  }
}

export async function loadSoak({
  cella,
  sessions,
  clients: count,
  seconds,
  flags = [],
  progress,
}: Load): Promise<LoadReport> {
  await using served = await Served.start(cella, flags, WATCHED);
  progress(`${sessions} sessions for ${count} clients are made, and a cell is run in each`);
  const each = Math.ceil(sessions / count);
  const names = Array.from({ length: count }, (_, index) => `client-${index}`);
  const clients = await Promise.all(names.map((name) => LoadClient.prepare(served, name, each)));
  for (const { times } of clients) times.length = 0;
  progress(`${count} clients work for ${seconds} s`);
  using watch = await Watch.begin(served, (mb) => progress(`the server takes ${mb.toFixed(1)} MB`));
  const end = performance.now() + seconds * 1000;
  const memory = async () => {
    await delay(seconds * 500);
    const halfMb = await watch.keptMb();
    await delay(end - performance.now());
    const endMb = await watch.keptMb();
    return { halfMb, endMb, growth: endMb / halfMb - 1 };
  };
  // They work until the memory is measured: that of a server at rest is less.
  let over = false;
  const measured = memory().finally(() => {
    over = true;
  });
  await Promise.all([measured, ...clients.map((client) => client.work(() => over))]);
  progress('the logs are read');
  for (const client of clients) await client.check();
  const times = clients.flatMap((client) => client.times);
  return {
    executions: times.length,
    events: clients.reduce((sum, client) => sum + client.events, 0),
    p50Ms: percentile(times, 50),
    p99Ms: percentile(times, 99),
    ...(await measured),
  };
}
