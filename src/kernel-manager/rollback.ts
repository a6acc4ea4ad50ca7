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

  constructor(life: KernelProcess, saver: Autosave, clock: Clock) {
    this.#process = life;
    this.#autosave = saver;
    this.#clock = clock;
  }

  /** What becomes of a cell that has run, and of the twin from before it. */
  async settleTransaction(twin: number, policy: TransactionPolicy, result: ResultEvent): Promise<ResultEvent> {
    const failed = result.status !== 'ok';
    const back =
      policy === 'rollback_always' || (failed && (policy === 'commit_on_success' || policy === 'rollback_on_failure'));
    // A death decides an explicit one.
    if (back || (policy === 'explicit' && result.death)) return await this.#rollbackAfter(twin, result);
    if (policy === 'explicit') {
      this.#process.transaction.leaveOpen(twin);
      return { ...result, transaction: 'open' };
    }
    if (this.#keepForUndo(twin)) await this.#evictToFit();
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
    const twin = this.#process.transaction.forget();
    if (twin !== undefined) this.#process.dropSnapshot(twin);
  }

  /** Keeps this moment of the kernel, to go back to or to fork from. */
  async addCheckpoint(kernel: Kernel, name?: string): Promise<LiveCheckpoint> {
    const twin = await takeSnapshot(kernel, this.#process.requireShared);
    const moment = { ...this.#newCheckpoint(twin), ...(name === undefined ? {} : { name }) };
    this.#process.checkpoints.add(moment);
    await this.#evictToFit();
    return moment;
  }

  async restore(moment: LiveCheckpoint): Promise<void> {
    await this.rollbackOpen();
    await this.#rollbackTo(moment.snapshot, true);
  }

  /** To before the last cell. Gives the number of executions that had been had by then. */
  async undo(): Promise<number> {
    if (this.#process.transaction.open !== undefined) {
      await this.rollback();
      return this.#process.executions;
    }
    const moment = this.#process.checkpoints.takeUndo();
    await this.#rollbackTo(moment.snapshot, false);
    return moment.execution;
  }

  /** Where the place of the kernel has ended with it, there is nothing to go back to: the last save comes back. */
  async #rollbackAfter(twin: number, result: ResultEvent): Promise<ResultEvent> {
    try {
      await this.#rollbackTo(twin, false);
      return { ...result, transaction: 'rolled_back' };
    } catch (error) {
      if (!result.death) throw error;
      this.#process.startFrom = { kind: 'died', cause: result.death };
      return result;
    }
  }

  /** The twin becomes the kernel, or, where it is kept, a fork of it. */
  async #rollbackTo(twin: number, keep: boolean): Promise<void> {
    const life = this.#process;
    const quarters = life.requireShared;
    await life.kill();
    life.startFrom = EMPTY;
    try {
      await life.attach(await quarters.launch({ env: {}, from: { twin, keep } }), undefined, { fromTwin: true });
    } catch (cause) {
      // The kernel has ended too: the last save comes back, and the next result says so.
      const death = life.cause ?? life.kernel?.dead;
      if (death) life.startFrom = { kind: 'died', cause: death };
      if (!(cause instanceof CellaError) || cause.code === 'CHECKPOINT_GONE') throw cause;
      throw new CellaError('CHECKPOINT_GONE', `The kernel cannot go back. ${cause.message}`, { cause });
    }
    this.#autosave.changed();
  }

  /** Whether it is kept: where nothing can be undone nobody needs it. */
  #keepForUndo(twin: number): boolean {
    const { checkpoints: moments } = this.#process;
    if (moments.limits.undo > 0) moments.addUndo(this.#newCheckpoint(twin));
    else this.#process.dropSnapshot(twin);
    return moments.limits.undo > 0;
  }

  async #evictToFit(): Promise<void> {
    const usage = await this.#process.shared?.environment.memoryUsage();
    if (usage) this.#process.checkpoints.evictToFit(usage.twins);
  }

  #newCheckpoint(twin: number): LiveCheckpoint {
    return { snapshot: twin, id: randomUUID(), createdAt: this.#clock(), execution: this.#process.executions };
  }
}
