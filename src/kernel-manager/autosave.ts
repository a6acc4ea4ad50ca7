/** Saves one kernel automatically: some time after its last cell, from a fork while it keeps working, and before it ends. */

import { availableParallelism } from 'node:os';
import { Kernel } from '../kernel/kernel.ts';
import { Semaphore } from '../lib/queues.ts';
import { CellaError } from '../protocol/errors.ts';
import type { Manifest } from '../protocol/kernel-state.ts';
import { type CheckpointLabel, type DurableCheckpoints, isKernelFault } from './durable-checkpoints.ts';
import { type KernelProcess, takeSnapshot, waitReady } from './kernel-process.ts';

/** Shared by all kernels of this process: if hundreds became idle together, as many forks would take too much memory. */
const saveSlots = new Semaphore(Math.max(2, availableParallelism()));

/** A fork of a kernel that runs nothing, with the number of executions at that time. */
interface SaveFork {
  readonly kernel: Kernel;
  readonly execution: number;
}

interface AutosaveOptions {
  readonly afterMs: number;
  readonly durableCheckpoints: DurableCheckpoints | undefined;
  /**
   * Returns a fork of the kernel to save from; undefined if there is nothing to save now, or it was saved in place. Calls
   * `forked` once the fork exists, before the kernel can change.
   */
  readonly fork: (forked: () => void) => Promise<SaveFork | undefined>;
  readonly onSaved: ((manifest: Manifest) => void) | undefined;
}

export class Autosave {
  readonly #options: AutosaveOptions;
  #timer: NodeJS.Timeout | undefined;
  #saving: Promise<void> = Promise.resolve();
  /** Resolves when the fork is written, or writing it has failed. */
  #written: Promise<void> = Promise.resolve();
  /** Whether anything has changed since the last save. */
  #changed = false;
  #closed = false;

  constructor(options: AutosaveOptions) {
    this.#options = options;
  }

  /** Prevents saves while a cell runs. */
  cellStarted(): void {
    clearTimeout(this.#timer);
  }

  /** Variables may have changed: schedules a save. */
  changed(): void {
    if (!this.#options.durableCheckpoints || this.#closed) return;
    this.#changed = true;
    clearTimeout(this.#timer);
    // A save that fails is tried again after the next cell, and at the end, where its caller gets the error.
    this.#timer = setTimeout(
      () => void saveSlots.run(() => this.saveNow()).catch(() => {}),
      this.#options.afterMs,
    ).unref();
  }

  /** Saves changes while the kernel keeps working. */
  saveNow(): Promise<void> {
    this.#saving = this.#saving.catch(() => {}).then(() => this.#save());
    return this.#saving;
  }

  /** Saves changes from the kernel itself, without a fork. */
  async saveInPlace(kernel: Kernel, execution: number): Promise<void> {
    clearTimeout(this.#timer);
    // A save under way ends with the environment of this kernel, so it must be written first.
    await this.#written;
    if (!this.#changed || !this.#options.durableCheckpoints || !kernel.idle) return;
    await this.#writeSave(kernel, execution);
  }

  /** Resolves when a save under way is written or has failed: it must not appear among later saves. */
  settled(): Promise<void> {
    return this.#written;
  }

  /** Deletes the automatic saves. Checkpoints stay. */
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
      if (forked) await this.#writeSave(forked.kernel, forked.execution).finally(() => forked.kernel.close());
    } finally {
      written.resolve();
    }
  }

  async #writeSave(kernel: Kernel, execution: number): Promise<void> {
    this.#changed = false;
    try {
      this.#options.onSaved?.(await this.write(kernel, { kind: 'save', execution }));
    } catch (error) {
      this.#changed = true;
      throw error;
    }
  }
}

/** A fork of the kernel between two cells. Undefined if there is nothing to save now, or the kernel was saved in place. */
export async function forkForSave(
  kernelProcess: KernelProcess,
  autosave: Autosave,
  forked: () => void,
): Promise<SaveFork | undefined> {
  const { kernel, executions: execution } = kernelProcess;
  if (!kernel?.idle || kernelProcess.transaction.open !== undefined) return undefined;
  const shared = kernelProcess.requireShared;
  if (!shared.environment.capabilities.liveFork) {
    await autosave.saveInPlace(kernel, execution);
    return undefined;
  }
  try {
    const snapshot = await takeSnapshot(kernel, shared);
    const link = await shared.launch({ env: {}, from: { snapshot, keep: false } });
    const fork = new Kernel(link, { background: () => {} });
    await waitReady(fork, { fromSnapshot: true });
    forked();
    return { kernel: fork, execution };
  } catch (error) {
    if (!(error instanceof CellaError) || error.code !== 'FORK_UNSAFE') throw error;
    // Threads run: the kernel saves itself, and the next cell waits.
    await autosave.saveInPlace(kernel, execution);
    return undefined;
  }
}

/** The last save of a kernel that is about to end. */
export async function saveBeforeEnd({ kernel, executions }: KernelProcess, autosave: Autosave): Promise<void> {
  try {
    if (kernel) await autosave.saveInPlace(kernel, executions);
  } catch (error) {
    // Caused by user code: the next result reports the age of the last save.
    if (!isKernelFault(error)) throw error;
  }
}

/** A durable checkpoint of the kernel as it is. */
export async function saveCheckpoint(
  kernel: Kernel,
  autosave: Autosave,
  purpose: { readonly execution: number; readonly name?: string },
): Promise<Manifest> {
  try {
    return await autosave.write(kernel, { kind: 'checkpoint', ...purpose });
  } catch (cause) {
    // The kernel may have died before the request: then it is not idle, although nothing runs.
    const busy = cause instanceof CellaError && cause.code === 'KERNEL_BUSY';
    throw busy && kernel.dead ? new CellaError(kernel.dead.code, kernel.dead.message, { cause }) : cause;
  }
}
