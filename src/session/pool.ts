/** KernelPool: sessions by agent key, with a ceiling on how many kernels live at a time. */

import { z } from 'zod';
import { LimitedSlots } from '../pool/slots.ts';
import { CellaError } from '../protocol/errors.ts';
import { listAgents } from './agents.ts';
import { checkPoolOptions, type SessionOptions } from './options.ts';
import { Session } from './session.ts';

export const PoolLimits = z.strictObject({
  /** Kernels kept ready for keys that come for the first time. */
  minSpares: z.int().min(0).max(64).default(0),
  /** Kernels that may live at a time. */
  maxKernels: z.int().min(1).max(100_000).default(64),
  /** Idle kernels are put to sleep after this long; 0 means never. */
  idleTtlMs: z.int().min(0).max(2_147_483_647).default(600_000),
  /** How long a caller waits for a kernel when all of them are at work. */
  waitMs: z.int().min(0).max(2_147_483_647).default(30_000),
});

export type PoolOptions = z.input<typeof PoolLimits> & {
  /** For every session; a key's own options come on top. */
  readonly session?: Omit<SessionOptions, 'agentKey' | 'spares'>;
};

export interface PoolMetrics {
  /** Kernels that live. */
  readonly live: number;
  /** Kernels that wait for a key of their own. */
  readonly spare: number;
  /** Keys of this pool whose kernel sleeps. */
  readonly hibernated: number;
  /** Acquires that found the key's kernel alive. */
  readonly hits: number;
  /** Kernels that were brought back after they died. */
  readonly recoveries: number;
  /** Acquires and calls that had to wait for another kernel to go to sleep or to end. */
  readonly waits: number;
}

interface Entry {
  readonly options: string;
  readonly session: Promise<Session>;
  timer: NodeJS.Timeout | undefined;
}

export class KernelPool implements AsyncDisposable {
  readonly #limits: z.output<typeof PoolLimits>;
  readonly #defaults: SessionOptions;
  readonly #slots: LimitedSlots;
  readonly #entries = new Map<string, Entry>();
  #hits = 0;
  #recoveries = 0;
  #closed = false;

  constructor({ session = {}, ...limits }: PoolOptions = {}) {
    this.#limits = checkPoolOptions(PoolLimits, limits);
    this.#slots = new LimitedSlots(this.#limits.maxKernels, this.#limits.waitMs);
    this.#defaults = { ...session, spares: this.#limits.minSpares };
  }

  /**
   * The session of a key: the one that there is, or a new one, with the names that the key had. Other options for a key,
   * such as another cwd or environment, restart that key alone.
   */
  async acquire(key: string, own: Omit<SessionOptions, 'agentKey'> = {}): Promise<Session> {
    this.#checkOpen();
    const agentKey = normal(key);
    const options = { ...this.#defaults, ...own, agentKey };
    const text = JSON.stringify(own);
    const known = this.#entries.get(agentKey);
    if (known && known.options === text) {
      const session = await known.session;
      clearTimeout(known.timer);
      if (session.pid > 0) this.#hits++;
      if (!session.closed) return session;
      // Somebody has closed it. Others may have come here while we waited for it.
      if (this.#entries.get(agentKey) === known) this.#entries.delete(agentKey);
      return await this.acquire(agentKey, own);
    }
    // The first who asks opens it; the others wait for the same one.
    const opening = this.#reopen(known, options);
    const entry: Entry = { options: text, session: opening, timer: undefined };
    this.#entries.set(agentKey, entry);
    opening.catch(() => {
      if (this.#entries.get(agentKey) === entry) this.#entries.delete(agentKey);
    });
    return await opening;
  }

  /** The kernel stays alive, until it has been idle for long or another key needs its place. */
  release(agentKey: string): void {
    const entry = this.#entries.get(normal(agentKey));
    if (!entry || this.#limits.idleTtlMs === 0) return;
    clearTimeout(entry.timer);
    const sleep = () => void entry.session.then((session) => session.hibernate()).catch(() => {}); // told at its next use
    entry.timer = setTimeout(sleep, this.#limits.idleTtlMs).unref();
  }

  /** Saves and closes the session of one key, or of all. */
  async shutdown(agentKey?: string): Promise<void> {
    if (agentKey === undefined) this.#closed = true;
    const keys = agentKey === undefined ? [...this.#entries.keys()] : [normal(agentKey)];
    const outcomes = await Promise.allSettled(keys.map((key) => this.#close(key)));
    const failed = outcomes.find((outcome) => outcome.status === 'rejected');
    if (failed) throw failed.reason;
  }

  async metrics(): Promise<PoolMetrics> {
    const sessions = await Promise.all(
      [...this.#entries.values()].map(({ session }) => session.catch(() => undefined)),
    );
    const known = sessions.filter((session) => session !== undefined);
    const live = known.filter(({ pid }) => pid > 0).length;
    return {
      live: this.#slots.live,
      spare: known[0]?.spares ?? 0,
      hibernated: known.length - live,
      hits: this.#hits,
      recoveries: this.#recoveries + known.reduce((total, { recoveries }) => total + recoveries, 0),
      waits: this.#slots.waits,
    };
  }

  /** Every agent of the data folder, those of other processes included. */
  async agents(): Promise<Awaited<ReturnType<typeof listAgents>>> {
    const { dataDir } = this.#defaults;
    return await listAgents(dataDir === undefined ? {} : { dataDir });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.shutdown();
  }

  async #reopen(before: Entry | undefined, options: SessionOptions): Promise<Session> {
    if (before) await this.#end(before);
    return await Session.openIn(this.#slots, options);
  }

  async #close(agentKey: string): Promise<void> {
    const entry = this.#entries.get(agentKey);
    if (!entry) return;
    this.#entries.delete(agentKey);
    await this.#end(entry);
  }

  async #end(entry: Entry): Promise<void> {
    clearTimeout(entry.timer);
    const session = await entry.session.catch(() => undefined);
    this.#recoveries += session?.recoveries ?? 0;
    await session?.close();
  }

  #checkOpen(): void {
    if (this.#closed) throw new CellaError('SESSION_CLOSED', 'The pool was shut down.');
  }
}

/** As a session would call it. */
function normal(agentKey: string): string {
  return agentKey.trim() === '' ? 'default' : agentKey;
}
