/**
 * All executors of a server: one for each session that has a turn, kept a while for the next, and never for another
 * session or person. What an agent has left running there could take the token of whoever prompts next.
 */

import { randomBytes } from 'node:crypto';
import { CellaError } from '../../protocol/errors.ts';
import { Latest } from '../latest.ts';
import { stopping } from '../stopping.ts';
import type { RunTurn } from '../turns/contract.ts';
import type { TurnEnding, TurnTask } from '../turns/turn.ts';
import type { Tenant } from './contract.ts';
import type { WorkerParts } from './equip.ts';
import { Held } from './held.ts';
import { Waiting } from './waiting.ts';
import { Worker } from './worker.ts';

export interface PoolMetrics {
  readonly live: number;
  /** Of those, the ones that are not there yet, and the ones that have a turn. */
  readonly starting: number;
  readonly busy: number;
  readonly waiting: number;
  /** Executors that began, and those that ended without being asked to. */
  readonly started: number;
  readonly failures: number;
}

/** Sessions that are never prompted again leave theirs behind. */
const MOST_REASONS = 1000;

export class WorkerPool implements AsyncDisposable {
  readonly #parts: WorkerParts;
  readonly #held = new Map<string, Held>();
  /** Those that are ending still have their place. */
  readonly #ending = new Set<Promise<unknown>>();
  readonly #waiting = new Waiting();
  /** By session: why the executor before ended by itself, for the next turn to tell. */
  readonly #reasons = new Latest<string, string>(MOST_REASONS);
  /** Sessions whose executor has ended by itself, and is replaced when it is gone. */
  readonly #replacing = new Set<string>();
  #started = 0;
  #failures = 0;
  #closed = false;

  constructor(parts: WorkerParts) {
    this.#parts = parts;
  }

  readonly run: RunTurn = async (task) => {
    const tenant = await task.session.tenant();
    const held = await this.#take(tenant, task);
    try {
      return await this.#perform(held, task);
    } finally {
      this.#giveBack(tenant.info.id, held);
    }
  };

  /** Somebody is about to prompt: an executor is started, where there is room. Whether there is one, or will be. */
  warm(tenant: Tenant, agent: string): boolean {
    const { idleMs } = this.#parts.settings;
    // None is kept for a prompt to come; or whoever waits has the next place.
    if (idleMs === 0 || this.#waiting.count > 0) return this.#held.has(tenant.info.id);
    void this.#warm(tenant, agent);
    return this.#held.has(tenant.info.id);
  }

  /** Ends the executor of a session, which is over or has changed. */
  async retire(session: string, why: string): Promise<void> {
    this.#replacing.delete(session);
    const held = this.#held.get(session);
    if (held) await this.#drop(session, held, why);
  }

  metrics(): PoolMetrics {
    const held = [...this.#held.values()];
    return {
      live: held.length + this.#ending.size,
      starting: held.filter(({ starting }) => starting).length,
      busy: held.filter(({ users, starting }) => users > 0 && !starting).length,
      waiting: this.#waiting.count,
      started: this.#started,
      failures: this.#failures,
    };
  }

  /** For whoever looks after one executor: tests of faults, and the operator's. */
  async worker(session: string): Promise<Worker | undefined> {
    return await this.#held.get(session)?.worker;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    this.#waiting.all();
    await Promise.all([...this.#held].map(([session, held]) => this.#drop(session, held, 'the server ends')));
    await Promise.all(this.#ending);
  }

  async #perform(held: Held, task: TurnTask): Promise<TurnEnding> {
    // Whoever stops it while its executor starts does not wait for that.
    const worker = await unlessStopped(held.worker, task.signal);
    if (!worker) return { status: 'cancelled' };
    const { id } = task.session;
    const reason = this.#reasons.take(id);
    if (reason !== undefined) {
      const text = `The agent’s executor was started anew. The one before: ${reason}`;
      await task.emit({ type: 'agent_notice', turn: task.turn, text });
    }
    held.agent = task.agent;
    return await worker.run(task);
  }

  async #take(tenant: Tenant, { agent, signal, userId }: TurnTask): Promise<Held> {
    const { id } = tenant.info;
    for (;;) {
      if (this.#closed) throw stopping();
      if (signal.aborted) throw new CellaError('ABORTED', 'The turn was stopped before an executor was free.');
      const known = this.#held.get(id);
      if (known) {
        const unfit = known.unfitFor(tenant, userId);
        if (unfit === undefined) return known.take(userId);
        await this.#drop(id, known, unfit);
      } else if (!this.#full) return this.#start(tenant, agent).take(userId);
      else await (this.#makeRoom() ?? this.#waiting.wait(signal));
    }
  }

  get #full(): boolean {
    return this.#held.size + this.#ending.size >= this.#parts.settings.maxWorkers;
  }

  /** The one that has been idle for the longest time goes. Undefined, and at once, where all are at work: none is given back unseen. */
  #makeRoom(): Promise<unknown> | undefined {
    const idle = [...this.#held].filter(([, { users }]) => users === 0);
    const [oldest] = idle.toSorted(([, one], [, other]) => one.idleSince - other.idleSince);
    if (oldest) return this.#drop(...oldest, 'another session needs its place');
    return this.#ending.size > 0 ? Promise.race(this.#ending) : undefined;
  }

  #start(tenant: Tenant, agent: string): Held {
    const { id } = tenant.info;
    const worker = Worker.start(newWorkerId(), tenant, agent, this.#parts);
    const held = new Held(tenant, worker);
    this.#held.set(id, held);
    worker.then(
      (made) => {
        held.starting = false;
        this.#started++;
        void made.died.then((reason) => this.#lost(id, held, reason));
      },
      () => this.#forget(id, held), // told to whoever waits for it
    );
    return held;
  }

  /** Nobody has asked for its end. */
  #lost(session: string, held: Held, reason: CellaError): void {
    if (this.#held.get(session) !== held) return;
    this.#failures++;
    this.#reasons.set(session, reason.message);
    this.#parts.log(session, `executor lost: ${reason.message}`);
    const { tenant, agent } = held;
    // Whoever waits has its place; and one that never had a turn is not started again and again.
    if (agent !== undefined && this.#waiting.count === 0) this.#replacing.add(session);
    void this.#drop(session, held, reason.message).then(() => {
      if (this.#replacing.delete(session) && agent !== undefined) void this.#warm(tenant, agent);
    });
  }

  /** Starts an executor ahead of the next turn, where there is room for one. */
  async #warm(tenant: Tenant, agent: string): Promise<void> {
    const { id } = tenant.info;
    if (this.#closed || this.#held.has(id) || this.#full) return;
    const held = this.#start(tenant, agent);
    held.users++;
    await held.worker.catch(() => {}); // the next turn meets it again
    this.#giveBack(id, held);
  }

  #giveBack(session: string, held: Held): void {
    held.users--;
    held.idleSince = performance.now();
    if (held.users > 0 || this.#held.get(session) !== held) return;
    if (this.#waiting.count > 0) {
      void this.#drop(session, held, 'another session needs its place');
      return;
    }
    const late = () => void this.#drop(session, held, 'it had nothing to do');
    held.rest(this.#parts.settings.idleMs, late);
  }

  async #drop(session: string, held: Held, why: string): Promise<void> {
    held.keep();
    if (this.#held.get(session) === held) this.#held.delete(session);
    const ending = held.worker.then((worker) => worker.close(why)).catch(() => {}); // it never began, or is gone
    this.#ending.add(ending);
    await ending;
    this.#ending.delete(ending);
    this.#waiting.next();
  }

  #forget(session: string, held: Held): void {
    if (this.#held.get(session) === held) this.#held.delete(session);
    this.#waiting.next();
  }
}

function newWorkerId(): string {
  return `wrk_${randomBytes(12).toString('hex')}`;
}

async function unlessStopped<T>(work: Promise<T>, signal: AbortSignal): Promise<T | undefined> {
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const stop = () => resolve(undefined);
  signal.addEventListener('abort', stop, { once: true });
  if (signal.aborted) stop();
  try {
    return await Promise.race([work, promise]);
  } finally {
    signal.removeEventListener('abort', stop);
  }
}
