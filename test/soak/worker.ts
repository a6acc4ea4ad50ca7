/** A client that runs one cell after another in a session, follows it, and holds the server to what it was told. */

import { isDeepStrictEqual } from 'node:util';
import type { SessionEvent } from '../../src/protocol/session-events.ts';
import { Refused, type Served } from '../support/servers/serve-process.ts';
import { Follower } from './follower.ts';
import { checkEndings, readLog } from './log.ts';

interface Request {
  readonly code: string;
  /** The value of the code, and where it is keyed its Idempotency-Key. */
  readonly mark: string;
  readonly keyed: boolean;
}

interface Told {
  readonly execution: string;
  readonly status: string;
  readonly value: unknown;
  readonly replayed: boolean;
}

export class Worker {
  readonly #key: string;
  session: string | undefined;
  acknowledged = 0;
  interrupted = 0;
  lost = 0;
  /** The log is checked up to here. */
  checked = 0;
  #sent = 0;
  #follower: Follower | undefined;
  /** Since the last check. */
  #answers: { readonly request: Request; readonly told: Told }[] = [];
  #unanswered: Request | undefined;
  #working: Promise<void> = Promise.resolve();

  constructor(key: string) {
    this.#key = key;
  }

  /** After a restart: what there is must be what there was, and whoever followed is told how it went on. */
  async resume(served: Served): Promise<void> {
    const body = { agentKey: this.#key, saveAfterMs: 20 };
    const { id } = await served.ask<{ id: string }>('POST /v1/sessions', { body });
    this.session ??= id;
    if (id !== this.session) throw new Error(`the key ${this.#key} had ${this.session}, and now has ${id}`);
    const events = await readLog(served, id, this.checked);
    await this.#check(served, events);
    const last = this.checked + events.length;
    const { url, token } = served;
    const after = this.#follower?.last ?? 0;
    if (after > last) throw new Error(`${id}: event ${after} was sent, and the log ends at ${last}`);
    this.#follower = new Follower({ url, token, session: id, after });
    await this.#follower.reached(last);
    compare(id, this.#follower.seen, events, this.checked);
    this.checked = last;
    await this.#retry(served);
  }

  /** Resolves with the first answer; the rest goes on until the server ends. */
  async work(served: Served): Promise<void> {
    const first = Promise.withResolvers<void>();
    this.#working = this.#work(served, first.resolve);
    await Promise.race([first.promise, this.#working]);
  }

  /** Resolves when the server has gone for this client too. */
  async over(): Promise<void> {
    await this.#working;
    await this.#follower?.closed;
    if (this.#follower?.disorder) throw this.#follower.disorder;
  }

  /** All of the log at once; no request with a key has run twice. */
  async checkAll(served: Served): Promise<void> {
    const id = this.session ?? '';
    const values = new Map<unknown, number>();
    for (const ending of checkEndings(id, await readLog(served, id)).values()) {
      if (ending.type === 'result') values.set(ending.value, (values.get(ending.value) ?? 0) + 1);
    }
    const twice = [...values].filter(([, count]) => count > 1);
    if (twice.length > 0) throw new Error(`${id}: ran more than once: ${JSON.stringify(twice)}`);
  }

  async #work(served: Served, answered: () => void): Promise<void> {
    for (;;) {
      const request = this.#next();
      this.#unanswered = request;
      try {
        const told = await this.#ask(served, request);
        this.#answers.push({ request, told });
        this.#unanswered = undefined;
        this.acknowledged++;
        answered();
      } catch (error) {
        // Whoever was refused was answered.
        if (error instanceof Refused) throw error;
        return;
      }
    }
  }

  #next(): Request {
    const mark = `${this.#key}-${this.#sent++}`;
    const code = `import time\nfor n in range(20):\n  print(n, flush=True)\n  time.sleep(0.002)\n'${mark}'`;
    return { code, mark, keyed: this.#sent % 2 === 0 };
  }

  async #ask(served: Served, { code, mark, keyed }: Request): Promise<Told> {
    const headers: Record<string, string> = keyed ? { 'idempotency-key': mark } : {};
    return await served.ask<Told>(`POST /v1/sessions/${this.session}/execute`, { body: { code }, headers });
  }

  /** What came after the last check. */
  async #check(served: Served, events: readonly SessionEvent[]): Promise<void> {
    const id = this.session ?? '';
    const endings = checkEndings(id, events);
    for (const { type } of endings.values()) if (type === 'interrupted') this.interrupted++;
    if (this.#follower) compare(id, this.#follower.seen, events, this.checked);
    for (const { request, told } of this.#answers.splice(0)) {
      const ending = endings.get(told.execution);
      const kept = ending?.type === 'result' && ending.status === told.status && ending.value === told.value;
      if (!kept || told.value !== request.mark) {
        throw new Error(`${id}: ${JSON.stringify(told)} was acknowledged, and the log says ${JSON.stringify(ending)}`);
      }
      if (!request.keyed) continue;
      const again = await this.#ask(served, request);
      const same = again.replayed && again.execution === told.execution && again.value === told.value;
      if (!same) throw new Error(`${id}: ${request.mark} gave ${JSON.stringify(told)}, then ${JSON.stringify(again)}`);
    }
  }

  /** What nobody answered is run once at most: it has its result, or is lost, or never began. */
  async #retry(served: Served): Promise<void> {
    const request = this.#unanswered;
    this.#unanswered = undefined;
    if (!request?.keyed) return;
    try {
      const { value } = await this.#ask(served, request);
      if (value !== request.mark) throw new Error(`${this.session}: ${request.mark} gave ${value} when asked again`);
    } catch (error) {
      if (!(error instanceof Refused) || error.code !== 'EXECUTION_LOST') throw error;
      this.lost++;
    }
  }
}

/** What was sent is what the log has. */
function compare(id: string, seen: readonly SessionEvent[], events: readonly SessionEvent[], after: number): void {
  for (const event of seen) {
    if (event.seq <= after) continue;
    const kept = events[event.seq - after - 1];
    if (!isDeepStrictEqual(kept, event)) {
      throw new Error(`${id}: ${JSON.stringify(event)} was sent, and the log has ${JSON.stringify(kept)}`);
    }
  }
}
