/** Runs the cells of one kernel in their turn: starts the kernel if needed, takes the snapshot of a transaction, and drops cells whose caller gave up. */

import type { EventSink } from '../kernel/event-queue.ts';
import type { Kernel } from '../kernel/kernel.ts';
import { type ExecutionSettings, KernelExecution, type SettleResult } from '../kernel/kernel-execution.ts';
import { SerialQueue } from '../lib/queues.ts';
import { asError } from '../lib/values.ts';
import type { Status } from '../protocol/enums.ts';
import { CellaError } from '../protocol/errors.ts';
import type { ExecutionEvent } from '../protocol/execution-events.ts';
import type { TransactionPolicy } from '../protocol/session-info.ts';
import type { Autosave } from './autosave.ts';
import type { KernelRollback } from './kernel-checkpoints.ts';
import { type KernelProcess, sessionClosed, takeSnapshot } from './kernel-process.ts';
import type { Recovery } from './recovery.ts';

/** Executions of one session: one at a time, in the order of their calls, with a limit on how many may wait. */
export class ExecutionQueue extends SerialQueue {
  readonly #limit: () => number;
  #pending = 0;

  constructor(limit: () => number) {
    super();
    this.#limit = limit;
  }

  /** Executions that run or wait. */
  get pending(): number {
    return this.#pending;
  }

  /** Counts one more execution; call what it returns when the execution has ended. Throws `KERNEL_BUSY` if too many wait. */
  enter(): () => void {
    if (this.#pending > this.#limit()) {
      const queued = this.#pending - 1;
      throw new CellaError('KERNEL_BUSY', `The kernel is busy, and ${queued} executions are already waiting.`, {
        details: { queued },
      });
    }
    this.#pending++;
    let pending = true;
    return () => {
      if (pending) this.#pending--;
      pending = false;
    };
  }
}

export interface CellOptions {
  readonly settings: ExecutionSettings;
  readonly transaction: TransactionPolicy;
  /** Cancels the cell while it waits, interrupts it while it runs. */
  readonly signal?: AbortSignal | undefined;
}

interface EndedCell {
  readonly execution: number;
  readonly code: string;
  readonly status: Status;
}

export interface FinishedCells {
  addCell(cell: EndedCell): void;
}

interface KernelCellsParts {
  readonly kernelProcess: KernelProcess;
  readonly recovery: Recovery;
  readonly rollback: KernelRollback;
  readonly autosave: Autosave;
  readonly queue: ExecutionQueue;
  /** Gets each cell that has run, before its caller gets the result. */
  readonly history: FinishedCells;
  /** Called after each cell: the kernel may be idle. */
  readonly onIdle: () => void;
}

/** A kernel that a cell can start in, and the snapshot to go back to, if the policy needs one. */
interface ReadyKernel {
  readonly kernel: Kernel;
  readonly snapshot: number | undefined;
}

export class KernelCells {
  readonly #parts: KernelCellsParts;
  /** How many callers wait to reset or restart the kernel: no cell starts before them. */
  #pendingPreempts = 0;

  constructor(parts: KernelCellsParts) {
    this.#parts = parts;
  }

  /** Queues a cell; it starts synchronously if the kernel is idle. Throws `KERNEL_BUSY` if too many wait. */
  submit(code: string, options: CellOptions, events: EventSink<ExecutionEvent>): KernelExecution {
    const { kernelProcess, queue, history, onIdle } = this.#parts;
    const leave = queue.enter();
    const number = ++kernelProcess.executions;
    const execution = new KernelExecution(number, code, options.settings, events, (result) => {
      leave();
      if (result) history.addCell({ execution: number, code, status: result.status });
    });
    const cancel = () => execution.abandon(new CellaError('ABORTED', 'The execution was cancelled before it began.'));
    const { signal } = options;
    if (signal?.aborted) {
      cancel();
      return execution;
    }
    signal?.addEventListener('abort', cancel, { once: true });
    void queue.run(() => this.#perform(execution, options, cancel)).finally(onIdle);
    return execution;
  }

  /** Kills the kernel if it is busy, and runs before all waiting cells. */
  async preempt(work: () => Promise<void>): Promise<void> {
    const { kernelProcess, queue } = this.#parts;
    let started = false;
    this.#pendingPreempts++;
    const turn = queue.runNext(() => {
      started = true;
      this.#pendingPreempts--;
      return work();
    });
    if (started) return await turn;
    await Promise.all([turn, kernelProcess.kill()]);
  }

  async #perform(execution: KernelExecution, { transaction, signal }: CellOptions, cancel: () => void): Promise<void> {
    const { kernelProcess, recovery } = this.#parts;
    const interrupt = () => kernelProcess.kernel?.running === execution && kernelProcess.kernel.interrupt();
    try {
      if (signal?.aborted) return;
      if (kernelProcess.isOver) throw sessionClosed();
      if (!kernelProcess.kernel?.idle) await recovery.ensureRunning();
      if (signal?.aborted) return;
      signal?.removeEventListener('abort', cancel);
      signal?.addEventListener('abort', interrupt, { once: true });
      await this.#execute(execution, transaction);
    } catch (error) {
      execution.abandon(asError(error));
    } finally {
      signal?.removeEventListener('abort', cancel);
      signal?.removeEventListener('abort', interrupt);
    }
  }

  /** Resolves when the transaction is settled. */
  async #execute(execution: KernelExecution, policy: TransactionPolicy): Promise<void> {
    const { kernelProcess, recovery } = this.#parts;
    // A transaction ends with its environment, also before the death of the kernel is noticed.
    if (kernelProcess.transaction.open !== undefined && kernelProcess.shared?.environment.alive === false) {
      await kernelProcess.kernel?.died;
      await recovery.ensureRunning();
    }
    if (kernelProcess.transaction.open !== undefined) {
      throw new CellaError('TRANSACTION_OPEN', 'An explicit transaction is open.');
    }
    const keeps = policy !== 'commit_always' || kernelProcess.checkpoints.limits.undo > 0;
    const kernel = keeps || !kernelProcess.kernel?.idle ? await recovery.ensureRunning() : kernelProcess.kernel;
    const ready = keeps ? await this.#prepare(kernel, policy) : { kernel, snapshot: undefined };
    await this.#run(execution, policy, ready);
  }

  async #run(execution: KernelExecution, policy: TransactionPolicy, { kernel, snapshot }: ReadyKernel): Promise<void> {
    const { kernelProcess, rollback, autosave } = this.#parts;
    if (kernelProcess.isOver) throw sessionClosed();
    if (this.#pendingPreempts > 0) {
      if (snapshot !== undefined) kernelProcess.dropSnapshot(snapshot);
      throw new CellaError('KERNEL_DIED', 'The kernel was reset or restarted before the cell began.');
    }
    autosave.cellStarted();
    if (snapshot !== undefined) kernelProcess.transaction.begin();
    const settle: SettleResult | undefined =
      snapshot === undefined ? undefined : (result) => rollback.settleTransaction(snapshot, policy, result);
    try {
      const { death } = await kernel.execute(execution, settle);
      if (!death) kernelProcess.crashes = 0;
    } finally {
      if (snapshot !== undefined) kernelProcess.transaction.end();
      autosave.changed();
    }
  }

  /** If the kernel died before the cell started, another one is started, once: nothing has run yet. */
  async #prepare(kernel: Kernel, policy: TransactionPolicy): Promise<ReadyKernel> {
    const snapshot = await this.#snapshotBefore(kernel, policy).catch((error: unknown) => ({ error }));
    if (kernel.dead && this.#pendingPreempts === 0) {
      const next = await this.#parts.recovery.ensureRunning();
      return { kernel: next, snapshot: await this.#snapshotBefore(next, policy) };
    }
    if (typeof snapshot === 'object') throw snapshot.error;
    return { kernel, snapshot };
  }

  async #snapshotBefore(kernel: Kernel, policy: TransactionPolicy): Promise<number | undefined> {
    const { requireShared: shared } = this.#parts.kernelProcess;
    if (policy !== 'commit_always') return await takeSnapshot(kernel, shared);
    // Only for undo: a kernel that cannot be forked runs the cell all the same.
    return await takeSnapshot(kernel, shared).catch(() => undefined);
  }
}
