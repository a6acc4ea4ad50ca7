/**
 * The kernel of one agent that lives, and the quarters it lives in. Everything that starts it, ends it or puts another in
 * its place does so here, so this is where its states are:
 *
 *   none ─ welcome ─> alive ─ dies by itself ─> dead: `next` says that its death is to be made up for
 *                     alive ─ end, leave ─────> none: it was asked for, and is no news
 *
 * One kernel at a time. What lives in the quarters ends with them: guests, moments, and an open transaction.
 */

import type { KernelHost } from '../environments/kernel-host.ts';
import type { CallHandler } from '../kernel/host-calls.ts';
import { Kernel } from '../kernel/kernel.ts';
import type { KernelConnection } from '../kernel/kernel-connection.ts';
import { CellaError } from '../protocol/errors.ts';
import type { Death, DisplayEvent, Notice, OutputEvent, ProgressEvent } from '../protocol/execution-events.ts';
import { Guests } from './guests.ts';
import { type MomentLimits, Moments } from './moments.ts';
import type { Quarters } from './quarters.ts';
import type { Holder, Slot, Slots } from './slots.ts';
import { Transaction } from './transaction.ts';
import { awake } from './twins.ts';

export interface LifeOptions {
  readonly moments: MomentLimits;
  /** Told of hosts that the code may not reach. */
  readonly onDenied: KernelHost['onDenied'];
  readonly background: (event: OutputEvent | DisplayEvent | ProgressEvent, bytes: number) => void;
  /** Carries out the calls of one kernel; asked for each kernel that begins. */
  readonly handler?: (() => CallHandler) | undefined;
  readonly slots: Slots;
  /** Told of each kernel that has died, also where that was asked for. */
  readonly onDied?: (death: Death) => void;
  /** Told of the process that the kernel descends from, each time that there is another. */
  readonly onLive?: (pid: number) => void;
}

/** What the next kernel begins with: nothing, the last save, or the last save because of a death that it makes up for. */
export type Beginning =
  | { readonly kind: 'empty' }
  | { readonly kind: 'asleep' }
  | { readonly kind: 'died'; readonly cause: Death };

export const EMPTY: Beginning = { kind: 'empty' };
export const ASLEEP: Beginning = { kind: 'asleep' };
export const ENDED = 'the sandbox it lived in has ended';

export class Life {
  readonly moments: Moments;
  readonly transaction = new Transaction();
  readonly guests = new Guests();
  next: Beginning = ASLEEP;
  /** Executions that were had, also by earlier processes. */
  executions = 0;
  readonly #options: LifeOptions;
  readonly #holder: Holder;
  #quarters: Quarters | undefined;
  #moveOut: () => Promise<void> = async () => {};
  #kernel: Kernel | undefined;
  #slot: Slot | undefined;
  #livePid = 0;
  #generation = 0;
  /** A death that was asked for is no news. */
  #expectedEnd = false;

  constructor(options: LifeOptions, holder: Holder) {
    this.#options = options;
    this.#holder = holder;
    this.moments = new Moments(options.moments, (twin) => this.drop(twin));
  }

  get kernel(): Kernel | undefined {
    return this.#kernel;
  }

  get quarters(): Quarters | undefined {
    return this.#quarters;
  }

  /** The quarters, for whoever knows that a kernel lives there. */
  get home(): Quarters {
    if (!this.#quarters) throw new CellaError('KERNEL_DIED', 'The place of this kernel has ended.');
    return this.#quarters;
  }

  get cause(): Death | undefined {
    return this.next.kind === 'died' ? this.next.cause : undefined;
  }

  /** Makes sure that another kernel may live. */
  async reserve(): Promise<void> {
    this.#slot ??= await this.#options.slots.take(this.#holder);
  }

  /** Others may have its place. */
  release(): void {
    this.#slot?.give();
    this.#slot = undefined;
  }

  moveTo(quarters: Quarters): void {
    this.#quarters = quarters;
    this.#moveOut = quarters.moveIn({
      onGone: (twin, outOfMemory) => {
        if (twin === this.transaction.open) this.transaction.forget();
        this.moments.lost(twin, outOfMemory ? 'memory ran out' : 'its process has ended');
      },
      onDenied: (attempt) => this.#options.onDenied(attempt),
    });
  }

  /** For quarters that have ended: another may be moved to. */
  moveOut(): Promise<void> {
    return this.#moveOut();
  }

  /** Takes in the kernel at the other end, and gives it when it is ready. */
  async welcome(link: KernelConnection, notice: Notice | undefined, { fromTwin = false } = {}): Promise<Kernel> {
    const quarters = this.home;
    this.#expectedEnd = false;
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
      this.mourn(kernel, quarters, death);
    });
    try {
      await awake(kernel, { fromTwin });
    } catch (error) {
      // It is nobody's kernel: whoever comes next must not find it.
      await kernel.kill();
      throw quarters.enclosure.failure ?? error;
    }
    if (this.#livePid !== quarters.enclosure.pid) {
      this.#livePid = quarters.enclosure.pid;
      this.#options.onLive?.(this.#livePid);
    }
    this.next = EMPTY;
    return kernel;
  }

  /** Whether the death of the kernel that lives is asked for. Each kernel that is welcomed begins without. */
  expectEnd(expected = true): void {
    this.#expectedEnd = expected;
  }

  /** Ends the kernel. */
  async end(): Promise<void> {
    this.#expectedEnd = true;
    await this.#kernel?.kill();
  }

  /** A kernel has died: the next one makes up for it, unless it was asked for or another lives. */
  mourn(kernel: Kernel, quarters: Quarters, death: Death): void {
    if (this.#quarters === quarters && !quarters.enclosure.alive) this.moments.lostAll(ENDED);
    if (this.#kernel !== kernel || this.#expectedEnd) return;
    this.next = { kind: 'died', cause: death };
    // Files in /tmp are memory too: a sandbox that ran out of it may have none left for the next kernel.
    if (death.code === 'KERNEL_OUT_OF_MEMORY' && quarters.unshared && this.transaction.none) {
      void this.leave('the sandbox ran out of memory', { keepSlot: true });
    }
  }

  /** Ends the kernel, and the enclosure with it where nobody else lives there. */
  async leave(reason: string, { keepSlot = false } = {}): Promise<void> {
    // Forks of the kernel may go on there: its guests do not.
    this.guests.evict();
    const moveOut = this.#moveOut;
    const quarters = this.#quarters;
    const kernel = this.#kernel;
    this.#moveOut = async () => {};
    this.#quarters = undefined;
    this.#expectedEnd = true;
    this.transaction.forget();
    // Before all that takes time: another kernel may live elsewhere by then, with moments of its own.
    this.moments.lostAll(reason);
    if (quarters && !quarters.unshared) await kernel?.close();
    await moveOut();
    await kernel?.died;
    if (!keepSlot) this.release();
  }

  drop(twin: number): void {
    this.#quarters?.enclosure.dropSnapshot(twin);
  }
}
