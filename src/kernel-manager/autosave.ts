/** Saves one kernel automatically: some time after its last cell, from a fork beside its work, and before it ends. */

import { availableParallelism } from 'node:os';
import { Kernel } from '../kernel/kernel.ts';
import { Semaphore } from '../lib/semaphore.ts';
import { CellaError } from '../protocol/errors.ts';
import type { Manifest } from '../protocol/kernel-state.ts';
import { type CheckpointLabel, type DurableCheckpoints, isKernelFault } from './durable-checkpoints.ts';
import type { KernelProcess } from './kernel-process.ts';
import { takeSnapshot, waitReady } from './shared-environment.ts';

/** Of all kernels of this process: where hundreds came to rest together, as many copies would take their memory twice. */
const saveSlots = new Semaphore(Math.max(2, availableParallelism()));

/** A copy of a kernel, which runs nothing, and how many executions there had been by then. */
interface SaveFork {
  readonly kernel: Kernel;
  readonly execution: number;
}

interface AutosaveOptions {
  readonly afterMs: number;
  readonly durableCheckpoints: DurableCheckpoints | undefined;
  /**
   * A copy of the kernel to save from; undefined where there is nothing to save now, or it was saved in place. Calls
   * `frozen` once there is a copy, before anything else can be done with the kernel.
   */
  readonly fork: (forked: () => void) => Promise<SaveFork | undefined>;
  readonly onSaved: ((manifest: Manifest) => void) | undefined;
}

export class Autosave {
  readonly #options: AutosaveOptions;
  #timer: NodeJS.Timeout | undefined;
  #saving: Promise<void> = Promise.resolve();
  /** Resolves when what was frozen is written, or could not be. */
  #written: Promise<void> = Promise.resolve();
  /** Whether something has changed since the last save. */
  #changed = false;
  #closed = false;

  constructor(options: AutosaveOptions) {
    this.#options = options;
  }

  /** A cell runs: it is not the time. */
  cellStarted(): void {
    clearTimeout(this.#timer);
  }

  /** Something has changed. */
  changed(): void {
    if (!this.#options.durableCheckpoints || this.#closed) return;
    this.#changed = true;
    clearTimeout(this.#timer);
    // One that fails is tried again after the next cell, and at the end, where somebody hears of it.
    this.#timer = setTimeout(
      () => void saveSlots.run(() => this.saveNow()).catch(() => {}),
      this.#options.afterMs,
    ).unref();
  }

  /** Saves what has changed, beside the kernel's work. */
  saveNow(): Promise<void> {
    this.#saving = this.#saving.catch(() => {}).then(() => this.#save());
    return this.#saving;
  }

  /** Saves what has changed from the kernel itself. */
  async saveInPlace(kernel: Kernel, execution: number): Promise<void> {
    clearTimeout(this.#timer);
    // A save on its way ends with the place of this kernel; until it is written, there is none of what has changed.
    await this.#written;
    if (!this.#changed || !this.#options.durableCheckpoints || !kernel.idle) return;
    this.#changed = false;
    try {
      this.#options.onSaved?.(await this.write(kernel, { kind: 'save', execution }));
    } catch (error) {
      this.#changed = true;
      throw error;
    }
  }

  /** A save on its way is there, or never will be: it must not turn up among saves of another time. */
  settled(): Promise<void> {
    return this.#written;
  }

  /** No save comes back any more; checkpoints stay. */
  async deleteSaves(): Promise<void> {
    await this.settled();
    await this.#options.durableCheckpoints?.deleteSaves();
  }

  async write(kernel: Kernel, purpose: CheckpointLabel): Promise<Manifest> {
    if (!this.#options.durableCheckpoints) throw new Error('there is no storage to write to');
    return await this.#options.durableCheckpoints.write(kernel, purpose);
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
  }

  async #save(): Promise<void> {
    if (!this.#changed || this.#closed) return;
    const written = Promise.withResolvers<void>();
    try {
      const forked = await this.#options.fork(() => {
        this.#written = written.promise;
      });
      if (forked) await this.#writeFork(forked);
    } finally {
      written.resolve();
    }
  }

  async #writeFork({ kernel, execution }: SaveFork): Promise<void> {
    this.#changed = false;
    try {
      this.#options.onSaved?.(await this.write(kernel, { kind: 'save', execution }));
    } catch (error) {
      this.#changed = true;
      throw error;
    } finally {
      await kernel.close();
    }
  }
}

/** A fork of the kernel as it is between two cells. Undefined where there is nothing to save now, or it has saved itself. */
export async function forkForSave(
  kernelProcess: KernelProcess,
  autosave: Autosave,
  forked: () => void,
): Promise<SaveFork | undefined> {
  const { kernel, executions: execution } = kernelProcess;
  if (!kernel?.idle || kernelProcess.transaction.open !== undefined) return undefined;
  const shared = kernelProcess.requireShared;
  if (shared.environment.forkless) {
    await autosave.saveInPlace(kernel, execution);
    return undefined;
  }
  try {
    const snapshot = await takeSnapshot(kernel, shared);
    const link = await shared.launch({ env: {}, from: { twin: snapshot, keep: false } });
    const copy = new Kernel(link, { background: () => {} });
    await waitReady(copy, { fromSnapshot: true });
    forked();
    return { kernel: copy, execution };
  } catch (error) {
    if (!(error instanceof CellaError) || error.code !== 'FORK_UNSAFE') throw error;
    // Threads run: it saves itself, and whoever comes next waits.
    await autosave.saveInPlace(kernel, execution);
    return undefined;
  }
}

/** The last save of a kernel that is about to end. */
export async function saveBeforeEnd({ kernel, executions }: KernelProcess, autosave: Autosave): Promise<void> {
  try {
    if (kernel) await autosave.saveInPlace(kernel, executions);
  } catch (error) {
    // By the code's own doing: whoever wakes the kernel next hears how old its last save is.
    if (!isKernelFault(error)) throw error;
  }
}

/** A durable checkpoint of this moment. */
export async function saveCheckpoint(
  kernel: Kernel,
  autosave: Autosave,
  purpose: { readonly execution: number; readonly name?: string },
): Promise<Manifest> {
  try {
    return await autosave.write(kernel, { kind: 'checkpoint', ...purpose });
  } catch (cause) {
    // It may have died before it was asked: then it is not idle, but nothing runs either.
    const busy = cause instanceof CellaError && cause.code === 'KERNEL_BUSY';
    throw busy && kernel.dead ? new CellaError(kernel.dead.code, kernel.dead.message, { cause }) : cause;
  }
}
