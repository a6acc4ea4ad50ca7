/**
 * Starts the kernel of one agent, and brings back what it had: after it died, after it slept, and in another process.
 *
 * A start that fails leaves `life.next` as it was, so that whoever tries next begins with the same. A kernel that dies
 * again and again before a cell has ended is not started for ever.
 */

import type { Kernel } from '../kernel/kernel.ts';
import type { KernelConnection } from '../kernel/kernel-connection.ts';
import { CellaError } from '../protocol/errors.ts';
import type { LostName, Manifest } from '../protocol/kernel-state.ts';
import type { Archive } from './archive.ts';
import { ENDED, type Life } from './life.ts';
import { type Place, Quarters } from './quarters.ts';
import type { Saver } from './saver.ts';
import { wake } from './waking.ts';

export interface RecoveryOptions {
  readonly agentKey: string;
  readonly place: Place;
  /** Where names are saved; without it they end with their kernel. */
  readonly archive?: Archive;
}

/** Recoveries in a row without a cell that ended. */
const MOST_RECOVERIES = 3;

export class Recovery {
  readonly #options: RecoveryOptions;
  readonly #life: Life;
  readonly #saver: Saver;
  #starting: Promise<Kernel> | undefined;
  #saves: Promise<Manifest[]> = Promise.resolve([]);
  #inARow = 0;
  #total = 0;
  #stage: 'open' | 'abandoned' | 'closed' = 'open';

  constructor(options: RecoveryOptions, life: Life, saver: Saver) {
    this.#options = options;
    this.#life = life;
    this.#saver = saver;
  }

  /** How often the kernel was brought back after it had died. */
  get total(): number {
    return this.#total;
  }

  /** Whether no kernel starts any more, and no cell begins. */
  get over(): boolean {
    return this.#stage !== 'open';
  }

  get closed(): boolean {
    return this.#stage === 'closed';
  }

  /** It is about to be closed: whatever has not begun does not begin any more. */
  abandon(): void {
    if (this.#stage === 'open') this.#stage = 'abandoned';
  }

  close(): void {
    this.#stage = 'closed';
  }

  /** The kernel that lives, started anew where the last one ended. */
  live(): Promise<Kernel> {
    if (this.over) return Promise.reject(sessionClosed());
    const { kernel } = this.#life;
    if (!this.#starting && kernel && !kernel.dead) return Promise.resolve(kernel);
    this.#starting ??= this.#start().finally(() => {
      this.#starting = undefined;
    });
    return this.#starting;
  }

  /** Resolves when a start that is on its way has come to its end; how, whoever waits for that kernel is told. */
  async settled(): Promise<void> {
    await this.#starting?.catch(() => {});
  }

  /** A cell has ended, or the names are others: deaths from before do not count any more. */
  forgive(): void {
    this.#inARow = 0;
  }

  async #start(): Promise<Kernel> {
    if (this.#inARow >= MOST_RECOVERIES) throw this.#crashLoop();
    await this.#life.reserve();
    try {
      return await this.#startOnce();
    } catch (error) {
      // A template that was killed a moment ago is not known to be dead before somebody tries it.
      const retry = error instanceof CellaError && error.code === 'TEMPLATE_FAILED' && !this.closed;
      if (retry) {
        await this.#life.leave('the process that kernels are forked from has ended', { keepSlot: true });
        return await this.#startOnce();
      }
      this.#life.release();
      throw error;
    }
  }

  async #startOnce(): Promise<Kernel> {
    const { place, archive } = this.#options;
    const life = this.#life;
    let first: Promise<KernelConnection> | undefined;
    let fresh = false;
    if (!life.quarters?.enclosure.alive) {
      await life.moveOut();
      // Numbers begin anew in the next one.
      life.moments.lostAll(ENDED);
      life.transaction.forget();
      const opened = await place.open();
      first = opened.first;
      fresh = opened.fresh;
      life.moveTo(new Quarters(opened.enclosure));
    }
    const quarters = life.home;
    // Looked for while the kernel starts. An agent that had no folder has no saves.
    const comesBack = !fresh && life.next.kind !== 'empty';
    if (archive && comesBack) this.#saves = this.#saver.settled().then(() => archive.saves());
    // A transaction that nobody decided is rolled back by the death of its kernel.
    const twin = life.transaction.forget();
    if (twin !== undefined && life.cause) return await this.#rollBack(quarters, twin);
    const link = await (first ?? quarters.launch(place.begin()));
    return await this.#bringBack(link, comesBack);
  }

  /** Everything is as it was when the transaction began. */
  async #rollBack(quarters: Quarters, twin: number): Promise<Kernel> {
    const { cause } = this.#life;
    const link = await quarters.launch({ env: {}, from: { twin, keep: false } });
    const kernel = await this.#life.welcome(link, undefined, { fromTwin: true });
    const restored = namesIn(await kernel.introspect('variables', {}));
    if (cause) kernel.notice = { recovered: { cause, savedAgoMs: 0, restored, lost: [] } };
    return kernel;
  }

  /** A fresh kernel, with the last save in it where there is one to come back to. */
  async #bringBack(link: KernelConnection, comesBack: boolean): Promise<Kernel> {
    const life = this.#life;
    const { cause } = life;
    const saves = await this.#saves;
    this.#saves = Promise.resolve([]);
    if (cause) {
      this.#inARow++;
      this.#total++;
    }
    const { archive, place } = this.#options;
    if (archive && saves.length > 0) return await wake(life, link, { saves, archive, place });
    const lost = comesBack ? await this.#unreadable() : [];
    const told = cause ? { recovered: { cause, restored: [], lost } } : { woken: { restored: [], lost } };
    return await life.welcome(link, cause || lost.length > 0 ? told : undefined);
  }

  /** An agent whose saves are all damaged must hear why it has no names. */
  async #unreadable(): Promise<LostName[]> {
    const all = (await this.#options.archive?.unreadable()) ?? [];
    return all.map(({ id, reason }) => ({ name: '*', reason: `the checkpoint ${id} cannot be read: ${reason}` }));
  }

  #crashLoop(): CellaError {
    const { cause } = this.#life;
    return new CellaError(
      'KERNEL_CRASH_LOOP',
      `The kernel of ${this.#options.agentKey} died ${MOST_RECOVERIES + 1} times without finishing a cell. ${cause?.message ?? ''}`.trim(),
      { details: { ...cause } },
    );
  }
}

/** The names of a list of variables, as a kernel tells it: hostile input like any other. */
function namesIn(variables: unknown): string[] {
  if (!Array.isArray(variables)) return [];
  return variables.flatMap(({ name }) => (typeof name === 'string' ? [name] : []));
}

export function sessionClosed(): CellaError {
  return new CellaError('SESSION_CLOSED', 'The session was closed.');
}
