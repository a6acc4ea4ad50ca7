/** Automatic saves of one kernel: some time after its last cell, beside its work, and at its end. */

import { availableParallelism } from 'node:os';
import type { Kernel } from '../kernel/kernel.ts';
import type { Manifest } from '../protocol/kernel-state.ts';
import type { Archive, Purpose } from './archive.ts';
import { Few } from './few.ts';

/** Of all kernels of this process: where hundreds came to rest together, as many copies would take their memory twice. */
const besideWork = new Few(Math.max(2, availableParallelism()));

/** A copy of a kernel, which runs nothing, and how many executions there had been by then. */
export interface Frozen {
  readonly kernel: Kernel;
  readonly execution: number;
}

export interface SaverOptions {
  readonly afterMs: number;
  readonly archive: Archive | undefined;
  /**
   * A copy of the kernel to save from; undefined where there is nothing to save now, or it was saved in place. Calls
   * `frozen` once there is a copy, before anything else can be done with the kernel.
   */
  readonly freeze: (frozen: () => void) => Promise<Frozen | undefined>;
  readonly onSaved: ((manifest: Manifest) => void) | undefined;
}

export class Saver {
  readonly #options: SaverOptions;
  #timer: NodeJS.Timeout | undefined;
  #saving: Promise<void> = Promise.resolve();
  /** Resolves when what was frozen is written, or could not be. */
  #written: Promise<void> = Promise.resolve();
  /** Whether something has changed since the last save. */
  #changed = false;
  #closed = false;

  constructor(options: SaverOptions) {
    this.#options = options;
  }

  /** A cell runs: it is not the time. */
  began(): void {
    clearTimeout(this.#timer);
  }

  /** Something has changed. */
  ended(): void {
    if (!this.#options.archive || this.#closed) return;
    this.#changed = true;
    clearTimeout(this.#timer);
    // One that fails is tried again after the next cell, and at the end, where somebody hears of it.
    this.#timer = setTimeout(
      () => void besideWork.take(() => this.now()).catch(() => {}),
      this.#options.afterMs,
    ).unref();
  }

  /** Saves what has changed, beside the kernel's work. */
  now(): Promise<void> {
    this.#saving = this.#saving.catch(() => {}).then(() => this.#save());
    return this.#saving;
  }

  /** Saves what has changed from the kernel itself. */
  async flush(kernel: Kernel, execution: number): Promise<void> {
    clearTimeout(this.#timer);
    // A save on its way ends with the place of this kernel; until it is written, there is none of what has changed.
    await this.#written;
    if (!this.#changed || !this.#options.archive || !kernel.idle) return;
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
  async forgetAll(): Promise<void> {
    await this.settled();
    await this.#options.archive?.forgetSaves();
  }

  async write(kernel: Kernel, purpose: Purpose): Promise<Manifest> {
    if (!this.#options.archive) throw new Error('there is no archive to write to');
    return await this.#options.archive.write(kernel, purpose);
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
  }

  async #save(): Promise<void> {
    if (!this.#changed || this.#closed) return;
    const written = Promise.withResolvers<void>();
    try {
      const frozen = await this.#options.freeze(() => {
        this.#written = written.promise;
      });
      if (frozen) await this.#writeFrozen(frozen);
    } finally {
      written.resolve();
    }
  }

  async #writeFrozen({ kernel, execution }: Frozen): Promise<void> {
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
