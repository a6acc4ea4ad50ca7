/** Takes a kernel back in time: what a transaction decides, undo, and live checkpoints. The twin of a moment becomes the kernel. */

import { randomUUID } from 'node:crypto';
import type { Kernel } from '../kernel/kernel.ts';
import { CellaError } from '../protocol/errors.ts';
import type { ResultEvent } from '../protocol/execution-events.ts';
import type { TransactionPolicy } from '../protocol/session-info.ts';
import type { Clock } from '../storage/contract.ts';
import { EMPTY, type Life } from './life.ts';
import type { Moment } from './moments.ts';
import type { Saver } from './saver.ts';
import { freeze } from './twins.ts';

export class History {
  readonly #life: Life;
  readonly #saver: Saver;
  readonly #clock: Clock;

  constructor(life: Life, saver: Saver, clock: Clock) {
    this.#life = life;
    this.#saver = saver;
    this.#clock = clock;
  }

  /** What becomes of a cell that has run, and of the twin from before it. */
  async decide(twin: number, policy: TransactionPolicy, result: ResultEvent): Promise<ResultEvent> {
    const failed = result.status !== 'ok';
    const back =
      policy === 'rollback_always' || (failed && (policy === 'commit_on_success' || policy === 'rollback_on_failure'));
    // A death decides an explicit one.
    if (back || (policy === 'explicit' && result.death)) return await this.#goBackAfter(twin, result);
    if (policy === 'explicit') {
      this.#life.transaction.leaveOpen(twin);
      return { ...result, transaction: 'open' };
    }
    if (this.#keepForUndo(twin)) await this.#fitMoments();
    return policy === 'commit_always' ? result : { ...result, transaction: 'committed' };
  }

  commit(): void {
    this.#keepForUndo(this.#life.transaction.take());
  }

  async rollback(): Promise<void> {
    await this.#goBack(this.#life.transaction.take(), false);
  }

  async rollBackUndecided(): Promise<void> {
    if (this.#life.transaction.open !== undefined) await this.rollback();
  }

  dropUndecided(): void {
    const twin = this.#life.transaction.forget();
    if (twin !== undefined) this.#life.drop(twin);
  }

  /** Keeps this moment of the kernel, to go back to or to fork from. */
  async keep(kernel: Kernel, name?: string): Promise<Moment> {
    const twin = await freeze(kernel, this.#life.home);
    const moment = { ...this.#moment(twin), ...(name === undefined ? {} : { name }) };
    this.#life.moments.keep(moment);
    await this.#fitMoments();
    return moment;
  }

  async restore(moment: Moment): Promise<void> {
    await this.rollBackUndecided();
    await this.#goBack(moment.twin, true);
  }

  /** To before the last cell. Gives the number of executions that had been had by then. */
  async undo(): Promise<number> {
    if (this.#life.transaction.open !== undefined) {
      await this.rollback();
      return this.#life.executions;
    }
    const moment = this.#life.moments.takeUndo();
    await this.#goBack(moment.twin, false);
    return moment.execution;
  }

  /** Where the place of the kernel has ended with it, there is nothing to go back to: the last save comes back. */
  async #goBackAfter(twin: number, result: ResultEvent): Promise<ResultEvent> {
    try {
      await this.#goBack(twin, false);
      return { ...result, transaction: 'rolled_back' };
    } catch (error) {
      if (!result.death) throw error;
      this.#life.next = { kind: 'died', cause: result.death };
      return result;
    }
  }

  /** The twin becomes the kernel, or, where it is kept, a fork of it. */
  async #goBack(twin: number, keep: boolean): Promise<void> {
    const life = this.#life;
    const quarters = life.home;
    await life.end();
    life.next = EMPTY;
    try {
      await life.welcome(await quarters.launch({ env: {}, from: { twin, keep } }), undefined, { fromTwin: true });
    } catch (cause) {
      // The kernel has ended too: the last save comes back, and the next result says so.
      const death = life.cause ?? life.kernel?.dead;
      if (death) life.next = { kind: 'died', cause: death };
      if (!(cause instanceof CellaError) || cause.code === 'CHECKPOINT_GONE') throw cause;
      throw new CellaError('CHECKPOINT_GONE', `The kernel cannot go back. ${cause.message}`, { cause });
    }
    this.#saver.ended();
  }

  /** Whether it is kept: where nothing can be undone nobody needs it. */
  #keepForUndo(twin: number): boolean {
    const { moments } = this.#life;
    if (moments.limits.undo > 0) moments.keepForUndo(this.#moment(twin));
    else this.#life.drop(twin);
    return moments.limits.undo > 0;
  }

  async #fitMoments(): Promise<void> {
    const usage = await this.#life.quarters?.enclosure.memoryUsage();
    if (usage) this.#life.moments.fit(usage.twins);
  }

  #moment(twin: number): Moment {
    return { twin, id: randomUUID(), createdAt: this.#clock(), execution: this.#life.executions };
  }
}
