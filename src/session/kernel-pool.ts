/** KernelPool: sessions by agent key, with a limit on how many kernels are alive at a time. */

import { z } from 'zod';
import { type KernelSlots, LimitedKernelSlots, SlotWaiters } from '../kernel-manager/kernel-slots.ts';
import { IdleTimeout, valueWithin } from '../lib/deadline.ts';
import { omitUndefined } from '../lib/values.ts';
import { CellaError } from '../protocol/errors.ts';
import { parseOptions } from '../protocol/parse.ts';
import { AgentKey } from '../protocol/session-info.ts';
import type { ForkOptions } from './api.ts';
import { dataFolder } from './data-folders.ts';
import { ExecutorConfig } from './executor-config.ts';
import { listKernels } from './kernel-list.ts';
import { Session } from './session.ts';
import {
  type CheckedOptions,
  checkOptions,
  checkOwnKey,
  type ForkOverrides,
  type SessionOptions,
} from './session-options.ts';

export const PoolLimits = z.strictObject({
  /** Kernels kept ready for new keys. */
  minSpares: z.int().min(0).max(64).default(0),
  /** Kernels that may be alive at a time. */
  maxKernels: z.int().min(1).max(100_000).default(64),
  /** Idle kernels are hibernated after this long; 0 means never. */
  idleMs: z.int().min(0).max(2_147_483_647).default(600_000),
  /** How long a caller waits for a kernel while all of them are busy. */
  waitMs: z.int().min(0).max(2_147_483_647).default(30_000),
});

export type PoolOptions = z.input<typeof PoolLimits> & {
  /** For a server: also accepts keys that start with ~, which belong to its users. */
  readonly reservedKeys?: boolean;
  /** Options for every session; the options of `acquire` override them. */
  readonly session?: Omit<SessionOptions, 'agentKey' | 'spares'>;
};

const AcquireOptions = z.strictObject({
  /** How long this caller waits while all kernels are busy, instead of the pool's `waitMs`. */
  waitMs: PoolLimits.shape.waitMs.unwrap().optional(),
  /** Stops waiting, with `ABORTED`. */
  signal: z.instanceof(AbortSignal).optional(),
});

export type AcquireOptions = z.input<typeof AcquireOptions>;

export interface PoolMetrics {
  /** Kernels that are alive. */
  readonly live: number;
  /** Kernels kept ready for new keys. */
  readonly spare: number;
  /** Keys of this pool whose kernel is hibernated. */
  readonly hibernated: number;
  /** Calls of `acquire` that found the kernel alive. */
  readonly hits: number;
  /** Kernels that were restarted after they died. */
  readonly recoveries: number;
  /** Calls that had to wait for another kernel to hibernate or end. */
  readonly waits: number;
}

interface PoolEntry {
  readonly options: string;
  readonly session: Promise<Session>;
  readonly group: SlotWaiters;
  /** The session, once it is open. */
  opened: Session | undefined;
  readonly idle: IdleTimeout;
  /** Called when its kernel was hibernated because it was idle. */
  onHibernated: () => void;
}

export class KernelPool implements AsyncDisposable {
  readonly #limits: z.output<typeof PoolLimits>;
  readonly #defaults: SessionOptions;
  readonly #slots: LimitedKernelSlots;
  readonly #entries = new Map<string, PoolEntry>();
  readonly #normalizeKey: (agentKey: string) => string;
  #hits = 0;
  #recoveries = 0;
  #closed = false;

  constructor({ session = {}, reservedKeys = false, ...limits }: PoolOptions = {}) {
    this.#normalizeKey = reservedKeys ? normalizeKey : normalizeOwnKey;
    this.#limits = parseOptions(PoolLimits, limits);
    this.#slots = new LimitedKernelSlots(this.#limits.maxKernels, this.#limits.waitMs);
    this.#defaults = { ...session, spares: this.#limits.minSpares };
  }

  /**
   * Returns the open session of a key, or opens one with the key's saved variables. If the options differ, such as another cwd
   * or environment, only that key's session restarts.
   */
  async acquire(key: string, own: Omit<SessionOptions, 'agentKey'> = {}, wait: AcquireOptions = {}): Promise<Session> {
    this.#checkOpen();
    const { waitMs = this.#limits.waitMs, signal } = parseOptions(AcquireOptions, wait);
    if (signal?.aborted) throw new CellaError('ABORTED', 'The caller’s signal was aborted before the call.');
    const options = { ...this.#defaults, ...omitUndefined(own), agentKey: this.#normalizeKey(key) };
    const waiting = { waitMs, signal, exhausted: (ms: number) => this.#slots.exhausted(ms) };
    const text = optionsText(checkOptions(options));
    for (;;) {
      const entry = this.#enter(options, text);
      let session: Session;
      try {
        session = await entry.group.join(entry.session, waiting);
      } catch (error) {
        // The session may still open, but no caller is left to release it.
        const current = this.#entries.get(options.agentKey) === entry;
        if (current && entry.group.isEmpty && !entry.group.left) this.release(options.agentKey);
        throw error;
      }
      if (!session.closed) return session;
      // It was closed. Another caller may have replaced the entry meanwhile.
      if (this.#entries.get(options.agentKey) === entry) this.#entries.delete(options.agentKey);
      this.#checkOpen();
    }
  }

  /**
   * Starts a kernel with the memory of another key's, for a key that is not in this pool; `overrides` replace options of that key.
   */
  async fork(
    agentKey: string,
    options: ForkOptions,
    own: Omit<SessionOptions, 'agentKey'> = {},
    overrides: ForkOverrides = {},
  ): Promise<Session> {
    const key = this.#normalizeKey(options.agentKey);
    if (this.#entries.has(key)) {
      throw new CellaError('KEY_BUSY', `This pool already has a session for the key ${JSON.stringify(key)}.`);
    }
    const text = optionsText(
      checkOptions({ ...this.#defaults, ...omitUndefined({ ...own, ...overrides }), agentKey: key }),
    );
    const session = (await this.acquire(agentKey, own)).forkIn({ ...options, agentKey: key }, overrides);
    const entry = this.#newEntry(text, session, new SlotWaiters());
    this.#entries.set(key, entry);
    try {
      entry.opened = await session;
      return entry.opened;
    } catch (error) {
      if (this.#entries.get(key) === entry) this.#entries.delete(key);
      throw error;
    }
  }

  /** The kernel stays alive until it has been idle for long, or another key needs its slot. */
  release(agentKey: string, onHibernated: () => void = () => {}): void {
    const entry = this.#find(agentKey);
    if (!entry) return;
    entry.onHibernated = onHibernated;
    entry.idle.restart();
  }

  /** Undoes a release, for a caller that already has the session. */
  retain(agentKey: string): void {
    this.#find(agentKey)?.idle.stop();
  }

  /** Saves and closes the session of one key, or of all. */
  async shutdown(agentKey?: string): Promise<void> {
    if (agentKey === undefined) this.#closed = true;
    const keys = agentKey === undefined ? [...this.#entries.keys()] : [this.#normalizeKey(agentKey)];
    const outcomes = await Promise.allSettled(keys.map((key) => this.#close(key)));
    const failed = outcomes.find((outcome) => outcome.status === 'rejected');
    if (failed) throw failed.reason;
  }

  async metrics(): Promise<PoolMetrics> {
    // Sessions that wait for a slot are neither live nor hibernated, and must not be waited for here.
    const known = [...this.#entries.values()].flatMap(({ opened }) => (opened ? [opened] : []));
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

  /** Private memory of the live kernels, in bytes. Skips kernels that do not answer in time: they may be paused. */
  async memory(timeoutMs: number): Promise<number> {
    const live = [...this.#entries.values()].flatMap(({ opened }) => (opened && opened.pid > 0 ? [opened] : []));
    const counted = new Set<unknown>();
    // A kernel that cannot be measured has just ended.
    const each = live.map((session) => valueWithin(session.memory(counted), timeoutMs, 0));
    return (await Promise.all(each)).reduce((total, bytes) => total + bytes, 0);
  }

  /** The kernels of the data folder, including those of other processes. */
  async kernels(): Promise<Awaited<ReturnType<typeof listKernels>>> {
    const { dataDir } = this.#defaults;
    return await listKernels(dataDir === undefined ? {} : { dataDir });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.shutdown();
  }

  /** The first caller opens the session; the others wait for the same one. */
  #enter(options: SessionOptions & { agentKey: string }, text: string): PoolEntry {
    const { agentKey } = options;
    const known = this.#entries.get(agentKey);
    if (known && known.options === text && !known.group.left) {
      known.idle.stop();
      void known.session.then(
        ({ pid }) => {
          if (pid > 0) this.#hits++;
        },
        () => {}, // its callers get the error
      );
      return known;
    }
    const group = new SlotWaiters();
    const session = this.#reopen(known, options, group);
    const entry = this.#newEntry(text, session, group);
    this.#entries.set(agentKey, entry);
    session.then(
      (opened) => {
        entry.opened = opened;
      },
      () => {
        if (this.#entries.get(agentKey) !== entry) return;
        // If the new options do not work, the previous session stays.
        if (known?.opened?.closed === false) this.#entries.set(agentKey, known);
        else this.#entries.delete(agentKey);
      },
    );
    return entry;
  }

  async #reopen(before: PoolEntry | undefined, options: SessionOptions, group: SlotWaiters): Promise<Session> {
    if (before) {
      // Check the new options before the previous session is closed.
      await ExecutorConfig.prepare(checkOptions(options), dataFolder(options.dataDir));
      await this.#end(before);
    }
    let opening = true;
    const slots: KernelSlots = {
      take: (owner) => {
        const queuer = opening ? group : undefined;
        opening = false;
        return this.#slots.take(owner, queuer);
      },
      hibernateIdle: () => this.#slots.hibernateIdle(),
    };
    return await Session.openIn(slots, options);
  }

  async #close(agentKey: string): Promise<void> {
    const entry = this.#entries.get(agentKey);
    if (!entry) return;
    this.#entries.delete(agentKey);
    entry.group.cancel(new CellaError('SESSION_CLOSED', 'The pool was shut down while its caller waited.'));
    await this.#end(entry);
  }

  async #end(entry: PoolEntry): Promise<void> {
    entry.idle.stop();
    const session = await entry.session.catch(() => undefined);
    this.#recoveries += session?.recoveries ?? 0;
    await session?.close();
  }

  #find(agentKey: string): PoolEntry | undefined {
    // Most keys are stored as they are written.
    return this.#entries.get(agentKey) ?? this.#entries.get(this.#normalizeKey(agentKey));
  }

  #newEntry(options: string, session: Promise<Session>, group: SlotWaiters): PoolEntry {
    // If it fails, its next caller gets the error, and it is tried again after that.
    const idle = new IdleTimeout(this.#limits.idleMs, () => void hibernate(entry).catch(() => {}));
    const entry: PoolEntry = { options, session, group, idle, opened: undefined, onHibernated: () => {} };
    return entry;
  }

  #checkOpen(): void {
    if (this.#closed) throw new CellaError('SESSION_CLOSED', 'The pool was shut down.');
  }
}

async function hibernate(entry: PoolEntry): Promise<void> {
  const session = await entry.session;
  if (session.pid === 0) return;
  await session.hibernate();
  entry.onHibernated();
}

const KeyOption = z.object({ agentKey: AgentKey });

/** The key as a session stores it. */
function normalizeKey(agentKey: string): string {
  return parseOptions(KeyOption, { agentKey }).agentKey;
}

function normalizeOwnKey(agentKey: string): string {
  checkOwnKey(agentKey);
  return normalizeKey(agentKey);
}

/** Equal for equal options, in any order. Functions are ignored: they cannot be compared. */
function optionsText({ storage, ...options }: CheckedOptions): string {
  return JSON.stringify([storage?.toBootstrapConfig(), options], (_key, value: unknown) => {
    const isPlain = typeof value === 'object' && value !== null && !Array.isArray(value);
    return isPlain
      ? Object.fromEntries(Object.entries(value).toSorted(([one], [other]) => (one < other ? -1 : 1)))
      : value;
  });
}
