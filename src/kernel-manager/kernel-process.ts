/**
 * The live kernel process of one agent key, the environment it runs in, and the processes attached to it.
 *
 *   none ─ attach ─> alive ─ dies by itself ──> dead: the next kernel recovers (`startFrom`)
 *                    alive ─ kill, release ───> none: the death was expected, and the caller says what comes next
 *
 * One kernel at a time. Attached processes, live checkpoints and an open transaction end with the environment.
 */

import { randomInt } from 'node:crypto';
import type { KernelHost, KernelHostListener, StartKernelOptions } from '../environments/kernel-host.ts';
import type { CallHandler } from '../kernel/host-calls.ts';
import { Kernel } from '../kernel/kernel.ts';
import type { KernelConnection } from '../kernel/kernel-connection.ts';
import { CellaError } from '../protocol/errors.ts';
import type { Death, DisplayEvent, OutputEvent, ProgressEvent } from '../protocol/execution-events.ts';
import type { KernelSlot, KernelSlots, SlotOwner } from './kernel-slots.ts';
import { type LiveCheckpointLimits, LiveCheckpoints } from './snapshots.ts';

/** Opens the environments of one agent key, one after the other. */
export interface EnvironmentSource {
  /** `fresh`: the key had no folder before, and therefore no saves. */
  open(): Promise<{ environment: KernelHost; first?: Promise<KernelConnection>; fresh: boolean }>;
  launchOptions(): StartKernelOptions;
}

/** An environment that a kernel and its forks share, and the snapshots (frozen forks) in it. Closed when its last kernel is released. */
export class SharedEnvironment {
  readonly environment: KernelHost;
  readonly #listeners = new Set<KernelHostListener>();

  constructor(environment: KernelHost) {
    this.environment = environment;
    environment.listen({
      snapshotLost: (snapshot, outOfMemory) => {
        for (const listener of this.#listeners) listener.snapshotLost(snapshot, outOfMemory);
      },
      // It is not visible from outside which of its kernels it was.
      networkDenied: (attempt) => {
        for (const listener of this.#listeners) listener.networkDenied(attempt);
      },
    });
  }

  /** Returns the function that releases it. The last release closes the environment. */
  retain(listener: KernelHostListener): () => Promise<void> {
    this.#listeners.add(listener);
    return async () => {
      if (this.#listeners.delete(listener) && this.#listeners.size === 0) await this.environment.close();
    };
  }

  /** Whether at most one kernel runs here. */
  get unshared(): boolean {
    return this.#listeners.size <= 1;
  }

  /** Unpredictable: code that could guess it could put a process of its own in place of the snapshot. */
  newSnapshotId(): number {
    return randomInt(1, 2 ** 31);
  }

  async launch(options: StartKernelOptions): Promise<KernelConnection> {
    const { from } = options;
    try {
      return await this.environment.startKernel(options);
    } catch (error) {
      if (from && !from.keep) this.environment.dropSnapshot(from.snapshot);
      throw error;
    }
  }
}

/** How long a snapshot may take to become a kernel. */
const SNAPSHOT_READY_MS = 10_000;
/** How long a new kernel may take to be ready, on the busiest machine. No user code runs before. */
const HELLO_MS = 60_000;

/** Freezes a fork of the kernel, and returns its number. */
export async function takeSnapshot(kernel: Kernel, shared: SharedEnvironment): Promise<number> {
  const snapshot = shared.newSnapshotId();
  try {
    await kernel.requests.takeSnapshot(snapshot);
    return snapshot;
  } catch (error) {
    // It may have been taken before the kernel ended.
    shared.environment.dropSnapshot(snapshot);
    throw error;
  }
}

/** How often to check the folders of a kernel that is not ready: it may wait for a hanging one. */
const FOLDER_CHECK_MS = 5000;

interface ReadyOptions {
  readonly fromSnapshot: boolean;
  /** Omit it if becoming ready does not touch any of the folders. */
  readonly checkFolders?: () => Promise<void>;
}

/**
 * Kills a kernel that does not become ready. A snapshot contains the memory of user code, which may prevent it from becoming a
 * kernel, and the process that starts kernels may be paused.
 */
export async function waitReady(kernel: Kernel, { fromSnapshot, checkFolders }: ReadyOptions): Promise<void> {
  const timer = setTimeout(() => void kernel.kill(), fromSnapshot ? SNAPSHOT_READY_MS : HELLO_MS);
  const hangs = Promise.withResolvers<never>();
  const check = setInterval(() => checkFolders?.().catch(hangs.reject), FOLDER_CHECK_MS);
  try {
    await Promise.race([kernel.ready, hangs.promise]);
  } finally {
    clearTimeout(timer);
    clearInterval(check);
  }
}

export interface KernelProcessOptions {
  /** Rejects if a folder that the session names does not answer. */
  readonly checkFolders: () => Promise<void>;
  readonly checkpointLimits: LiveCheckpointLimits;
  /** Called for each host that the code was denied. */
  readonly onDenied: KernelHostListener['networkDenied'];
  readonly background: (event: OutputEvent | DisplayEvent | ProgressEvent, bytes: number) => void;
  /** Makes the handler of one kernel's calls to the host. */
  readonly handler?: (() => CallHandler) | undefined;
  readonly slots: KernelSlots;
  /** Called for each kernel that has died, including intentional kills. */
  readonly onDied?: (death: Death) => void;
  /** Called with the pid that the kernel descends from, each time it changes. */
  readonly onLive?: (pid: number) => void;
}

/** What the next kernel loads: nothing, the last save, or the last save because a kernel died. */
type StartFrom =
  | { readonly kind: 'empty' }
  | { readonly kind: 'last-save' }
  | { readonly kind: 'recovery'; readonly cause: Death };

export const EMPTY: StartFrom = { kind: 'empty' };
export const LAST_SAVE: StartFrom = { kind: 'last-save' };
export const ENDED = 'the sandbox it ran in has ended';

export class KernelProcess {
  readonly checkpoints: LiveCheckpoints;
  readonly transaction = new Transaction();
  readonly attached = new AttachedProcesses();
  /** How many executions there were, also in earlier processes. */
  executions = 0;
  /** Recoveries in a row. A finished cell, or a replacement of all variables, sets it to 0. */
  crashes = 0;
  readonly #options: KernelProcessOptions;
  readonly #owner: SlotOwner;
  #startFrom: StartFrom = LAST_SAVE;
  #shared: SharedEnvironment | undefined;
  #releaseEnvironment: () => Promise<void> = async () => {};
  #kernel: Kernel | undefined;
  #slot: KernelSlot | undefined;
  #livePid = 0;
  #generation = 0;
  /** The next kernel does not recover from a death that was expected. */
  #deathExpected = false;
  #stage: 'open' | 'abandoned' | 'closed' = 'open';

  constructor(options: KernelProcessOptions, owner: SlotOwner) {
    this.#options = options;
    this.#owner = owner;
    this.checkpoints = new LiveCheckpoints(options.checkpointLimits, (snapshot) => this.dropSnapshot(snapshot));
  }

  get kernel(): Kernel | undefined {
    return this.#kernel;
  }

  get shared(): SharedEnvironment | undefined {
    return this.#shared;
  }

  /** The environment; only call this if a kernel runs there. */
  get requireShared(): SharedEnvironment {
    if (!this.#shared) throw new CellaError('KERNEL_DIED', 'The environment of this kernel has ended.');
    return this.#shared;
  }

  /** Whether no kernel and no cell starts any more. */
  get isOver(): boolean {
    return this.#stage !== 'open';
  }

  get isClosed(): boolean {
    return this.#stage === 'closed';
  }

  /** Called before closing: nothing new starts any more. */
  abandon(): void {
    if (this.#stage === 'open') this.#stage = 'abandoned';
  }

  close(): void {
    this.#stage = 'closed';
  }

  /** What the next start loads. Only this class changes it, with the kernel that it follows from. */
  get startFrom(): StartFrom {
    return this.#startFrom;
  }

  /** The death that the next start recovers from. */
  get cause(): Death | undefined {
    return this.#startFrom.kind === 'recovery' ? this.#startFrom.cause : undefined;
  }

  /** Takes a slot, unless it has one. */
  async reserve(): Promise<void> {
    this.#slot ??= await this.#options.slots.take(this.#owner);
  }

  /** Gives the slot to others. */
  releaseSlot(): void {
    this.#slot?.release();
    this.#slot = undefined;
  }

  checkFolders(): Promise<void> {
    return this.#options.checkFolders();
  }

  useEnvironment(shared: SharedEnvironment): void {
    this.#shared = shared;
    this.#releaseEnvironment = shared.retain({
      snapshotLost: (snapshot, outOfMemory) => {
        if (snapshot === this.transaction.open) this.transaction.forget();
        this.checkpoints.markGone(snapshot, outOfMemory ? 'memory ran out' : 'its process has ended');
      },
      networkDenied: (attempt) => this.#options.onDenied(attempt),
    });
  }

  /** For an environment that has ended: the next start opens another. */
  releaseEnvironment(): Promise<void> {
    return this.#releaseEnvironment();
  }

  /** Resolves when the kernel at the other end is ready. With `restoring`, a save is still to be loaded: call `restored` then. */
  async attach(link: KernelConnection, { fromSnapshot = false, restoring = false } = {}): Promise<Kernel> {
    const shared = this.requireShared;
    this.#deathExpected = false;
    const kernel = new Kernel(link, {
      background: this.#options.background,
      handler: this.#options.handler?.(),
      generation: this.#generation++,
      executions: () => this.executions,
    });
    this.#kernel = kernel;
    void kernel.died.then((death) => {
      this.#options.onDied?.(death);
      this.onDeath(kernel, shared, death);
    });
    try {
      await waitReady(kernel, { fromSnapshot, checkFolders: this.#options.checkFolders });
    } catch (error) {
      // The next caller must not find it.
      await kernel.kill();
      throw shared.environment.failure ?? error;
    }
    if (this.#livePid !== shared.environment.pid) {
      this.#livePid = shared.environment.pid;
      this.#options.onLive?.(this.#livePid);
    }
    if (!restoring) this.#startFrom = EMPTY;
    return kernel;
  }

  /** The save is loaded: a later start does not load it again. */
  restored(): void {
    this.#startFrom = EMPTY;
  }

  /** Sets whether the death of the current kernel is expected. A newly attached kernel's death is not. */
  expectDeath(expected = true): void {
    this.#deathExpected = expected;
  }

  /** Ends the kernel. `next`: what the next start loads, if not what it would have loaded anyway. */
  async kill(next: StartFrom = this.#startFrom): Promise<void> {
    this.#startFrom = next;
    this.#deathExpected = true;
    await this.#kernel?.kill();
  }

  /** Makes the next start recover from this death, although it was expected. */
  recoverFrom(cause: Death): void {
    this.#startFrom = { kind: 'recovery', cause };
  }

  /** A kernel has died: the next start recovers from it, unless it was expected or another kernel runs. */
  onDeath(kernel: Kernel, shared: SharedEnvironment, death: Death): void {
    if (this.#shared === shared && !shared.environment.alive) this.checkpoints.markAllGone(ENDED);
    if (this.#kernel !== kernel || this.#deathExpected) return;
    this.recoverFrom(death);
    // Files in /tmp use memory too: a sandbox that ran out of memory may have none left for the next kernel.
    if (death.code === 'KERNEL_OUT_OF_MEMORY' && shared.unshared && this.transaction.none) {
      void this.release('the sandbox ran out of memory', { keepSlot: true });
    }
  }

  /** Ends the kernel, and the environment with it if no other kernel runs there. `next`: what the next start loads. */
  async release(reason: string, { keepSlot = false, next = this.#startFrom } = {}): Promise<void> {
    this.#startFrom = next;
    // Forks of the kernel may stay in the environment; its attached processes do not.
    this.attached.killAll();
    const releaseEnvironment = this.#releaseEnvironment;
    const shared = this.#shared;
    const kernel = this.#kernel;
    this.#releaseEnvironment = async () => {};
    this.#shared = undefined;
    this.#deathExpected = true;
    this.transaction.forget();
    // Before the first await, after which another kernel may run elsewhere with its own checkpoints.
    this.checkpoints.markAllGone(reason);
    if (shared && !shared.unshared) await kernel?.close();
    await releaseEnvironment();
    await kernel?.died;
    if (!keepSlot) this.releaseSlot();
  }

  dropSnapshot(snapshot: number): void {
    this.#shared?.environment.dropSnapshot(snapshot);
  }
}

export interface AttachedProcess {
  kill(): void;
  readonly exited: Promise<unknown>;
}

class AttachedProcesses {
  readonly #running = new Set<AttachedProcess>();
  #starting = 0;
  #kills = 0;

  get any(): boolean {
    return this.#running.size + this.#starting > 0;
  }

  async attach<P extends AttachedProcess>(
    open: () => Promise<KernelHost>,
    start: (environment: KernelHost) => Promise<P>,
    onExit: () => void,
  ): Promise<P> {
    this.#starting++;
    try {
      const environment = await open();
      const before = this.#kills;
      const attached = await start(environment);
      this.#running.add(attached);
      const exited = () => {
        this.#running.delete(attached);
        onExit();
      };
      attached.exited.then(exited, exited);
      // All were killed while it started.
      if (this.#kills !== before) attached.kill();
      return attached;
    } finally {
      this.#starting--;
    }
  }

  killAll(): void {
    this.#kills++;
    for (const attached of this.#running) attached.kill();
  }
}

type TransactionState =
  | { readonly kind: 'none' }
  | { readonly kind: 'running' }
  | { readonly kind: 'open'; readonly snapshot: number };

const NONE: TransactionState = { kind: 'none' };

class Transaction {
  #state: TransactionState = NONE;

  /** Whether nothing depends on a snapshot of the kernel. */
  get none(): boolean {
    return this.#state.kind === 'none';
  }

  /** The snapshot of a transaction that waits to be committed or rolled back. */
  get open(): number | undefined {
    return this.#state.kind === 'open' ? this.#state.snapshot : undefined;
  }

  begin(): void {
    this.#state = { kind: 'running' };
  }

  leaveOpen(snapshot: number): void {
    this.#state = { kind: 'open', snapshot };
  }

  /** Called at the end of the cell. A transaction that was left open stays open. */
  end(): void {
    if (this.#state.kind === 'running') this.#state = NONE;
  }

  /** Ends an open transaction and returns its snapshot. Throws `NO_TRANSACTION`. */
  take(): number {
    const snapshot = this.forget();
    if (snapshot === undefined) throw new CellaError('NO_TRANSACTION', 'There is no open transaction.');
    return snapshot;
  }

  /** Ends an open transaction, if there is one, and returns its snapshot. */
  forget(): number | undefined {
    const snapshot = this.open;
    if (snapshot !== undefined) this.#state = NONE;
    return snapshot;
  }
}

export function sessionClosed(): CellaError {
  return new CellaError('SESSION_CLOSED', 'The session was closed.');
}
