/** The executions of a session: checked, counted, in their turn, and taken back where nobody wants them any more. */

import type { EventSink } from '../kernel/event-queue.ts';
import { type ExecutionSettings, KernelExecution } from '../kernel/kernel-execution.ts';
import type { KernelManager } from '../kernel-manager/kernel-manager.ts';
import { CellaError } from '../protocol/errors.ts';
import type { ExecutionEvent } from '../protocol/execution-events.ts';
import type { TransactionPolicy } from '../protocol/session-info.ts';
import type { ExecuteOptions, RunOptions } from './api.ts';
import type { Ledger } from './ledger.ts';
import { type CheckedOptions, checkExecuteOptions } from './options.ts';

/** By far the most common options, and not worth a schema's time. */
export const NO_OPTIONS: RunOptions = {};

export class Executions {
  readonly #options: CheckedOptions;
  readonly #keeper: KernelManager;
  readonly #ledger: Ledger;
  readonly #checkOpen: () => void;
  #pending = 0;

  /** `checkOpen` throws where the session is closed. */
  constructor(options: CheckedOptions, keeper: KernelManager, ledger: Ledger, checkOpen: () => void) {
    this.#options = options;
    this.#keeper = keeper;
    this.#ledger = ledger;
    this.#checkOpen = checkOpen;
  }

  /** Those that run or wait. */
  get pending(): number {
    return this.#pending;
  }

  enqueue(code: string, options: ExecuteOptions, events: EventSink<ExecutionEvent>): KernelExecution {
    this.#checkOpen();
    if (typeof code !== 'string') throw new CellaError('INVALID_OPTIONS', `The code must be text, not ${typeof code}.`);
    if (this.#pending > this.#options.queueLimit) {
      const queued = this.#pending - 1;
      throw new CellaError('KERNEL_BUSY', `The kernel is busy, and ${queued} executions wait for it already.`, {
        details: { queued },
      });
    }
    const { settings, transaction } = this.#settings(options);
    const execution = new KernelExecution(this.#keeper.countExecution(), code, settings, events);
    const { signal } = options;
    const takeBack = () =>
      execution.abandon(new CellaError('ABORTED', 'The execution was taken back before it began.'));
    if (signal?.aborted) {
      takeBack();
      return execution;
    }
    signal?.addEventListener('abort', takeBack, { once: true });
    this.#pending++;
    // Once only: what is abandoned may be abandoned twice.
    execution.onEnd = (result) => {
      execution.onEnd = () => {};
      this.#pending--;
      if (result) this.#ledger.remember({ execution: execution.number, code, status: result.status });
    };
    const perform = () => this.#perform(execution, transaction, signal, takeBack);
    void this.#keeper.queue.run(perform).finally(() => this.#keeper.becomeIdle());
    return execution;
  }

  #settings(options: ExecuteOptions): { settings: ExecutionSettings; transaction: TransactionPolicy } {
    const own = options === NO_OPTIONS ? NO_OPTIONS : checkExecuteOptions(options);
    return {
      settings: {
        timeoutMs: own.timeoutMs ?? this.#options.timeoutMs,
        inputTimeoutMs: own.inputTimeoutMs ?? this.#options.inputTimeoutMs,
        graceMs: this.#options.graceMs,
        outputLimitBytes: this.#options.outputLimitBytes,
      },
      transaction: own.transaction ?? this.#options.transaction,
    };
  }

  async #perform(
    execution: KernelExecution,
    transaction: TransactionPolicy,
    signal: AbortSignal | undefined,
    takeBack: () => void,
  ): Promise<void> {
    const stop = () => this.#keeper.kernel?.running === execution && this.#keeper.kernel.interrupt();
    try {
      if (signal?.aborted) return;
      this.#checkOpen();
      if (!this.#keeper.kernel?.idle) await this.#keeper.ensureRunning();
      if (signal?.aborted) return;
      signal?.removeEventListener('abort', takeBack);
      signal?.addEventListener('abort', stop, { once: true });
      await this.#keeper.execute(execution, transaction);
    } catch (error) {
      execution.abandon(error instanceof Error ? error : new Error(String(error)));
    } finally {
      signal?.removeEventListener('abort', takeBack);
      signal?.removeEventListener('abort', stop);
    }
  }
}
