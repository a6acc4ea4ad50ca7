/**
 * The live kernel process of one agent key, the environment it runs in, and the processes attached to it.
 *
 *   none ─ attach ─> alive ─ dies by itself ──> dead: the next kernel recovers (`startFrom`)
 *                    alive ─ kill, release ───> none: the death was expected, and the caller says what comes next
 *
 * One kernel at a time. Attached processes, live checkpoints and an open transaction end with the environment.
 */

import type { KernelHostListener } from '../environments/kernel-host.ts';
import type { CallHandler } from '../kernel/host-calls.ts';
import { Kernel } from '../kernel/kernel.ts';
import type { KernelConnection } from '../kernel/kernel-connection.ts';
import { CellaError } from '../protocol/errors.ts';
import type { Death, DisplayEvent, Notice, OutputEvent, ProgressEvent } from '../protocol/execution-events.ts';
import type { KernelSlot, KernelSlots, SlotHolder } from './kernel-slots.ts';
import { type SharedEnvironment, waitReady } from './shared-environment.ts';
import { type LiveCheckpointLimits, LiveCheckpoints, Transaction } from './snapshots.ts';

export interface KernelProcessOptions {
  readonly checkpointLimits: LiveCheckpointLimits;
  /** Called for each host that the code may not reach. */
  readonly onDenied: KernelHostListener['networkDenied'];
  readonly background: (event: OutputEvent | DisplayEvent | ProgressEvent, bytes: number) => void;
  /** Makes the handler of one kernel's calls to the host. */
  readonly handler?: (() => CallHandler) | undefined;
  readonly slots: KernelSlots;
  /** Called for each kernel that has died, also if it was killed on purpose. */
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
  readonly #options: KernelProcessOptions;
  readonly #holder: SlotHolder;
  #startFrom: StartFrom = LAST_SAVE;
  #shared: SharedEnvironment | undefined;
  #releaseEnvironment: () => Promise<void> = async () => {};
  #kernel: Kernel | undefined;
  #slot: KernelSlot | undefined;
  #livePid = 0;
  #generation = 0;
  /** The next kernel does not recover from a death that was expected. */
  #deathExpected = false;

  constructor(options: KernelProcessOptions, holder: SlotHolder) {
    this.#options = options;
    this.#holder = holder;
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
    this.#slot ??= await this.#options.slots.take(this.#holder);
  }

  /** Gives the slot to others. */
  releaseSlot(): void {
    this.#slot?.release();
    this.#slot = undefined;
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
  async attach(
    link: KernelConnection,
    notice: Notice | undefined,
    { fromSnapshot = false, restoring = false } = {},
  ): Promise<Kernel> {
    const shared = this.requireShared;
    this.#deathExpected = false;
    const kernel = new Kernel(link, {
      background: this.#options.background,
      handler: this.#options.handler?.(),
      notice,
      generation: this.#generation++,
      executions: () => this.executions,
    });
    this.#kernel = kernel;
    void kernel.died.then((death) => {
      this.#options.onDied?.(death);
      this.onDeath(kernel, shared, death);
    });
    try {
      await waitReady(kernel, { fromSnapshot });
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

  /** Whether the death of the current kernel is expected. Not so for a kernel that was just attached. */
  expectDeath(expected = true): void {
    this.#deathExpected = expected;
  }

  /** Ends the kernel. `next`: what the next start loads, if not what it would have loaded anyway. */
  async kill(next: StartFrom = this.#startFrom): Promise<void> {
    this.#startFrom = next;
    this.#deathExpected = true;
    await this.#kernel?.kill();
  }

  /** The next start recovers from this death, though it was expected. */
  recoverFrom(cause: Death): void {
    this.#startFrom = { kind: 'recovery', cause };
  }

  /** A kernel has died: the next start recovers from it, unless it was expected or another kernel runs. */
  onDeath(kernel: Kernel, shared: SharedEnvironment, death: Death): void {
    if (this.#shared === shared && !shared.environment.alive) this.checkpoints.markAllGone(ENDED);
    if (this.#kernel !== kernel || this.#deathExpected) return;
    this.recoverFrom(death);
    // Files in /tmp take memory too: a sandbox that ran out of it may have none left for the next kernel.
    if (death.code === 'KERNEL_OUT_OF_MEMORY' && shared.unshared && this.transaction.none) {
      void this.release('the sandbox ran out of memory', { keepSlot: true });
    }
  }

  /** Ends the kernel, and the environment with it if no other kernel runs there. `next`: what the next start loads. */
  async release(reason: string, { keepSlot = false, next = this.#startFrom } = {}): Promise<void> {
    this.#startFrom = next;
    // Forks of the kernel may go on there; its attached processes do not.
    this.attached.killAll();
    const releaseEnvironment = this.#releaseEnvironment;
    const shared = this.#shared;
    const kernel = this.#kernel;
    this.#releaseEnvironment = async () => {};
    this.#shared = undefined;
    this.#deathExpected = true;
    this.transaction.forget();
    // Before the first await: another kernel may run elsewhere by then, with checkpoints of its own.
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

  async attach<P extends AttachedProcess>(start: () => Promise<P>, onExit: () => void): Promise<P> {
    const before = this.#kills;
    this.#starting++;
    try {
      const attached = await start();
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
