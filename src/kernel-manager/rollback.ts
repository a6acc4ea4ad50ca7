/** Takes a kernel back: settles transactions, undoes cells, and restores live checkpoints. The snapshot becomes the kernel. */

import { randomUUID } from 'node:crypto';
import type { Kernel } from '../kernel/kernel.ts';
import { CellaError } from '../protocol/errors.ts';
import type { ResultEvent } from '../protocol/execution-events.ts';
import type { TransactionPolicy } from '../protocol/session-info.ts';
import type { Clock } from '../storage/contract.ts';
import type { Autosave } from './autosave.ts';
import { EMPTY, type KernelProcess } from './kernel-process.ts';
import { takeSnapshot } from './shared-environment.ts';
import type { LiveCheckpoint } from './snapshots.ts';

export class KernelRollback {
  readonly #process: KernelProcess;
  readonly #autosave: Autosave;
  readonly #clock: Clock;

  constructor(kernelProcess: KernelProcess, autosave: Autosave, clock: Clock) {
    this.#process = kernelProcess;
    this.#autosave = autosave;
    this.#clock = clock;
  }

  /** Keeps or rolls back a cell that has run, and the snapshot from before it. */
  async settleTransaction(snapshot: number, policy: TransactionPolicy, result: ResultEvent): Promise<ResultEvent> {
    const failed = result.status !== 'ok';
    const back =
      policy === 'rollback_always' || (failed && (policy === 'commit_on_success' || policy === 'rollback_on_failure'));
    // The death of the kernel rolls an explicit transaction back.
    if (back || (policy === 'explicit' && result.death)) return await this.#rollbackAfter(snapshot, result);
    if (policy === 'explicit') {
      this.#process.transaction.leaveOpen(snapshot);
      return { ...result, transaction: 'open' };
    }
    if (this.#keepForUndo(snapshot)) await this.#evictToFit();
    return policy === 'commit_always' ? result : { ...result, transaction: 'committed' };
  }

  commit(): void {
    this.#keepForUndo(this.#process.transaction.take());
  }

  async rollback(): Promise<void> {
    await this.#rollbackTo(this.#process.transaction.take(), false);
  }

  async rollbackOpen(): Promise<void> {
    if (this.#process.transaction.open !== undefined) await this.rollback();
  }

  dropOpen(): void {
    const snapshot = this.#process.transaction.forget();
    if (snapshot !== undefined) this.#process.dropSnapshot(snapshot);
  }

  /** A live checkpoint, to go back to or to fork from. */
  async addCheckpoint(kernel: Kernel, name?: string): Promise<LiveCheckpoint> {
    const snapshot = await takeSnapshot(kernel, this.#process.requireShared);
    const checkpoint = { ...this.#newCheckpoint(snapshot), name };
    this.#process.checkpoints.add(checkpoint);
    await this.#evictToFit();
    return checkpoint;
  }

  async restore(checkpoint: LiveCheckpoint): Promise<void> {
    await this.rollbackOpen();
    await this.#rollbackTo(checkpoint.snapshot, true);
  }

  /** Goes back to before the last cell. */
  async undo(): Promise<void> {
    if (this.#process.transaction.open !== undefined) await this.rollback();
    else await this.#rollbackTo(this.#process.checkpoints.takeUndo().snapshot, false);
  }

  /** If the environment has ended with the kernel, the snapshot is gone: the next start loads the last save. */
  async #rollbackAfter(snapshot: number, result: ResultEvent): Promise<ResultEvent> {
    try {
      await this.#rollbackTo(snapshot, false);
      return { ...result, transaction: 'rolled_back' };
    } catch (error) {
      if (!result.death) throw error;
      this.#process.recoverFrom(result.death);
      return result;
    }
  }

  /** The snapshot becomes the kernel; with `keep`, a fork of the snapshot does. */
  async #rollbackTo(snapshot: number, keep: boolean): Promise<void> {
    const kernelProcess = this.#process;
    const shared = kernelProcess.requireShared;
    await kernelProcess.kill(EMPTY);
    try {
      await kernelProcess.attach(await shared.launch({ env: {}, from: { snapshot, keep } }), undefined, {
        fromSnapshot: true,
      });
    } catch (cause) {
      // The kernel has ended too: the next start loads the last save, and the next result says so.
      const death = kernelProcess.cause ?? kernelProcess.kernel?.dead;
      if (death) kernelProcess.recoverFrom(death);
      if (!(cause instanceof CellaError) || cause.code === 'CHECKPOINT_GONE') throw cause;
      throw new CellaError('CHECKPOINT_GONE', `The kernel cannot go back. ${cause.message}`, { cause });
    }
    this.#autosave.changed();
  }

  /** False if it was dropped, because nothing can be undone here. */
  #keepForUndo(snapshot: number): boolean {
    const { checkpoints } = this.#process;
    if (checkpoints.limits.undo > 0) checkpoints.addUndo(this.#newCheckpoint(snapshot));
    else this.#process.dropSnapshot(snapshot);
    return checkpoints.limits.undo > 0;
  }

  async #evictToFit(): Promise<void> {
    const usage = await this.#process.shared?.environment.memoryUsage();
    if (usage) this.#process.checkpoints.evictToFit(usage.snapshots);
  }

  #newCheckpoint(snapshot: number): LiveCheckpoint {
    return { snapshot, id: randomUUID(), createdAt: this.#clock(), execution: this.#process.executions };
  }
}
