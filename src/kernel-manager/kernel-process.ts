/**
 * The live kernel process of one agent key, the environment it runs in, and the processes attached to it.
 *
 *   none ─ attach ─> alive ─ dies by itself ──> dead: `startFrom` says that the next kernel must recover
 *                    alive ─ kill, release ───> none: the death was expected
 *
 * One kernel at a time. Attached processes, live checkpoints and an open transaction end with the environment.
 */

import type { KernelHost } from '../environments/kernel-host.ts';
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
  /** Told of hosts that the code may not reach. */
  readonly onDenied: KernelHost['onDenied'];
  readonly background: (event: OutputEvent | DisplayEvent | ProgressEvent, bytes: number) => void;
  /** Carries out the calls of one kernel; asked for each kernel that begins. */
  readonly handler?: (() => CallHandler) | undefined;
  readonly slots: KernelSlots;
  /** Told of each kernel that has died, also where that was asked for. */
  readonly onDied?: (death: Death) => void;
  /** Told of the process that the kernel descends from, each time that there is another. */
  readonly onLive?: (pid: number) => void;
}

/** What the next kernel begins with: nothing, the last save, or the last save because of a death that it makes up for. */
type StartFrom =
  | { readonly kind: 'empty' }
  | { readonly kind: 'asleep' }
  | { readonly kind: 'died'; readonly cause: Death };

export const EMPTY: StartFrom = { kind: 'empty' };
export const LAST_SAVE: StartFrom = { kind: 'asleep' };
export const ENDED = 'the sandbox it lived in has ended';

export class KernelProcess {
  readonly checkpoints: LiveCheckpoints;
  readonly transaction = new Transaction();
  readonly attached = new AttachedProcesses();
  startFrom: StartFrom = LAST_SAVE;
  /** Executions that were had, also by earlier processes. */
  executions = 0;
  readonly #options: KernelProcessOptions;
  readonly #holder: SlotHolder;
  #shared: SharedEnvironment | undefined;
  #releaseEnvironment: () => Promise<void> = async () => {};
  #kernel: Kernel | undefined;
  #slot: KernelSlot | undefined;
  #livePid = 0;
  #generation = 0;
  /** A death that was asked for is no news. */
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

  /** The environment; only call this if a kernel lives there. */
  get requireShared(): SharedEnvironment {
    if (!this.#shared) throw new CellaError('KERNEL_DIED', 'The place of this kernel has ended.');
    return this.#shared;
  }

  get cause(): Death | undefined {
    return this.startFrom.kind === 'died' ? this.startFrom.cause : undefined;
  }

  /** Makes sure that another kernel may live. */
  async reserve(): Promise<void> {
    this.#slot ??= await this.#options.slots.take(this.#holder);
  }

  /** Others may have its place. */
  releaseSlot(): void {
    this.#slot?.release();
    this.#slot = undefined;
  }

  useEnvironment(shared: SharedEnvironment): void {
    this.#shared = shared;
    this.#releaseEnvironment = shared.retain({
      onGone: (snapshot, outOfMemory) => {
        if (snapshot === this.transaction.open) this.transaction.forget();
        this.checkpoints.markGone(snapshot, outOfMemory ? 'memory ran out' : 'its process has ended');
      },
      onDenied: (attempt) => this.#options.onDenied(attempt),
    });
  }

  /** For an environment that has ended: the next start opens another. */
  releaseEnvironment(): Promise<void> {
    return this.#releaseEnvironment();
  }

  /** Takes in the kernel at the other end, and gives it when it is ready. */
  async attach(link: KernelConnection, notice: Notice | undefined, { fromSnapshot = false } = {}): Promise<Kernel> {
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
      // It is nobody's kernel: whoever comes next must not find it.
      await kernel.kill();
      throw shared.environment.failure ?? error;
    }
    if (this.#livePid !== shared.environment.pid) {
      this.#livePid = shared.environment.pid;
      this.#options.onLive?.(this.#livePid);
    }
    this.startFrom = EMPTY;
    return kernel;
  }

  /** Whether the death of the kernel that lives is asked for. Each kernel that is welcomed begins without. */
  expectDeath(expected = true): void {
    this.#deathExpected = expected;
  }

  /** Ends the kernel. */
  async kill(): Promise<void> {
    this.#deathExpected = true;
    await this.#kernel?.kill();
  }

  /** A kernel has died: the next one makes up for it, unless it was asked for or another lives. */
  onDeath(kernel: Kernel, shared: SharedEnvironment, death: Death): void {
    if (this.#shared === shared && !shared.environment.alive) this.checkpoints.markAllGone(ENDED);
    if (this.#kernel !== kernel || this.#deathExpected) return;
    this.startFrom = { kind: 'died', cause: death };
    // Files in /tmp are memory too: a sandbox that ran out of it may have none left for the next kernel.
    if (death.code === 'KERNEL_OUT_OF_MEMORY' && shared.unshared && this.transaction.none) {
      void this.release('the sandbox ran out of memory', { keepSlot: true });
    }
  }

  /** Ends the kernel, and the enclosure with it where nobody else lives there. */
  async release(reason: string, { keepSlot = false } = {}): Promise<void> {
    // Forks of the kernel may go on there: its guests do not.
    this.attached.killAll();
    const moveOut = this.#releaseEnvironment;
    const shared = this.#shared;
    const kernel = this.#kernel;
    this.#releaseEnvironment = async () => {};
    this.#shared = undefined;
    this.#deathExpected = true;
    this.transaction.forget();
    // Before all that takes time: another kernel may live elsewhere by then, with moments of its own.
    this.checkpoints.markAllGone(reason);
    if (shared && !shared.unshared) await kernel?.close();
    await moveOut();
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

  /** `left` is called when it has gone. */
  async attach<G extends AttachedProcess>(enter: () => Promise<G>, left: () => void): Promise<G> {
    const before = this.#kills;
    this.#starting++;
    try {
      const guest = await enter();
      this.#running.add(guest);
      const leave = () => {
        this.#running.delete(guest);
        left();
      };
      guest.exited.then(leave, leave);
      // What it came for ended while it came.
      if (this.#kills !== before) guest.kill();
      return guest;
    } finally {
      this.#starting--;
    }
  }

  killAll(): void {
    this.#kills++;
    for (const guest of this.#running) guest.kill();
  }
}
