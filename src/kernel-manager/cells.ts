/** Runs the cells of one kernel, each in its transaction, and lets go before them what cannot wait: a reset or a restart. */

import type { Kernel } from '../kernel/kernel.ts';
import type { KernelExecution } from '../kernel/kernel-execution.ts';
import { CellaError } from '../protocol/errors.ts';
import type { TransactionPolicy } from '../protocol/session-info.ts';
import type { History } from './history.ts';
import type { Life } from './life.ts';
import { type Recovery, sessionClosed } from './recovery.ts';
import type { Saver } from './saver.ts';
import type { Turns } from './turns.ts';
import { freeze } from './twins.ts';

export interface CellsParts {
  readonly life: Life;
  readonly recovery: Recovery;
  readonly history: History;
  readonly saver: Saver;
  readonly turns: Turns;
}

/** A kernel that a cell may begin in, and the twin to go back to, where there is one. */
interface Ready {
  readonly kernel: Kernel;
  readonly twin: number | undefined;
}

export class Cells {
  readonly #parts: CellsParts;
  /** How many wait to reset or restart the kernel: nothing begins before them. */
  #overtakers = 0;

  constructor(parts: CellsParts) {
    this.#parts = parts;
  }

  /** What it returns is over when the transaction is. */
  async execute(execution: KernelExecution, policy: TransactionPolicy): Promise<void> {
    const { life, recovery } = this.#parts;
    // With its sandbox a transaction ends too, though the death of the kernel may be a moment from being known.
    if (life.transaction.open !== undefined && life.quarters?.enclosure.alive === false) {
      await life.kernel?.died;
      await recovery.live();
    }
    if (life.transaction.open !== undefined) {
      throw new CellaError('TRANSACTION_OPEN', 'An explicit transaction waits to be decided.');
    }
    const keeps = policy !== 'commit_always' || life.moments.limits.undo > 0;
    const kernel = keeps || !life.kernel?.idle ? await recovery.live() : life.kernel;
    const ready = keeps ? await this.#makeReady(kernel, policy) : { kernel, twin: undefined };
    await this.#run(execution, policy, ready);
  }

  /** Ends what runs, and comes before all that waits. */
  async overtake(work: () => Promise<void>): Promise<void> {
    const { life, turns } = this.#parts;
    let begun = false;
    this.#overtakers++;
    const turn = turns.takeNext(() => {
      begun = true;
      this.#overtakers--;
      return work();
    });
    if (begun) return await turn;
    await Promise.all([turn, life.end()]);
  }

  async #run(execution: KernelExecution, policy: TransactionPolicy, { kernel, twin }: Ready): Promise<void> {
    const { life, recovery, history, saver } = this.#parts;
    if (recovery.over) throw sessionClosed();
    if (this.#overtakers > 0) {
      if (twin !== undefined) life.drop(twin);
      throw new CellaError('KERNEL_DIED', 'The kernel was reset or restarted before the cell began.');
    }
    saver.began();
    if (twin !== undefined) {
      execution.settle = (result) => history.decide(twin, policy, result);
      life.transaction.begin();
    }
    try {
      const { death } = await kernel.execute(execution);
      if (!death) recovery.forgive();
    } finally {
      life.transaction.end();
      saver.ended();
    }
  }

  /** A kernel that turns out to have died before the cell began is brought back first, once: nothing has run yet. */
  async #makeReady(kernel: Kernel, policy: TransactionPolicy): Promise<Ready> {
    const twin = await this.#before(kernel, policy).catch((error: unknown) => ({ error }));
    if (kernel.dead && this.#overtakers === 0) {
      const next = await this.#parts.recovery.live();
      return { kernel: next, twin: await this.#before(next, policy) };
    }
    if (typeof twin === 'object') throw twin.error;
    return { kernel, twin };
  }

  async #before(kernel: Kernel, policy: TransactionPolicy): Promise<number | undefined> {
    const { home } = this.#parts.life;
    if (policy !== 'commit_always') return await freeze(kernel, home);
    // For undo alone: a kernel that cannot be forked runs the cell all the same.
    return await freeze(kernel, home).catch(() => undefined);
  }
}
