/** The queue of cells of a session: checks options, counts executions, runs them in order, and drops those whose caller gave up. */

import type { EventSink } from '../kernel/event-queue.ts';
import { type ExecutionSettings, KernelExecution } from '../kernel/kernel-execution.ts';
import type { KernelManager } from '../kernel-manager/kernel-manager.ts';
import { CellaError } from '../protocol/errors.ts';
import type { ExecutionEvent, InputRequestEvent } from '../protocol/execution-events.ts';
import type { TransactionPolicy } from '../protocol/session-info.ts';
import type { ExecuteOptions, RunOptions, SessionApi } from './api.ts';
import { type CheckedOptions, checkExecuteOptions } from './session-options.ts';
import type { StoredSession } from './stored-session.ts';

/** By far the most common options, and not worth a schema's time. */
export const NO_OPTIONS: RunOptions = {};

export class CellQueue {
  readonly #options: CheckedOptions;
  readonly #manager: KernelManager;
  readonly #stored: StoredSession;
  readonly #checkOpen: () => void;
  #pending = 0;

  /** `checkOpen` throws where the session is closed. */
  constructor(options: CheckedOptions, manager: KernelManager, stored: StoredSession, checkOpen: () => void) {
    this.#options = options;
    this.#manager = manager;
    this.#stored = stored;
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
    const execution = new KernelExecution(this.#manager.countExecution(), code, settings, events);
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
      if (result) this.#stored.addCell({ execution: execution.number, code, status: result.status });
    };
    const perform = () => this.#perform(execution, transaction, signal, takeBack);
    void this.#manager.queue.run(perform).finally(() => this.#manager.becomeIdle());
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
    const stop = () => this.#manager.kernel?.running === execution && this.#manager.kernel.interrupt();
    try {
      if (signal?.aborted) return;
      this.#checkOpen();
      if (!this.#manager.kernel?.idle) await this.#manager.ensureRunning();
      if (signal?.aborted) return;
      signal?.removeEventListener('abort', takeBack);
      signal?.addEventListener('abort', stop, { once: true });
      await this.#manager.execute(execution, transaction);
    } catch (error) {
      execution.abandon(error instanceof Error ? error : new Error(String(error)));
    } finally {
      signal?.removeEventListener('abort', takeBack);
      signal?.removeEventListener('abort', stop);
    }
  }
}

const NOBODY_ANSWERS = 'input() was called, but nobody is there to answer: pass `onInput` to run(), or read stream()';

/** Has `onInput` answer a cell that waits in `input()`; without it, the cell is told that nobody will. */
export async function answerInput(
  session: Pick<SessionApi, 'answerInput' | 'cancelInput'>,
  request: InputRequestEvent,
  onInput: RunOptions['onInput'],
): Promise<void> {
  try {
    if (!onInput) await session.cancelInput(request.id, NOBODY_ANSWERS);
    else await session.answerInput(request.id, await onInput(request));
  } catch (error) {
    const gone = error instanceof CellaError && error.code === 'INPUT_NOT_PENDING';
    if (!gone) await session.cancelInput(request.id, `the answer failed: ${error}`).catch(() => {}); // answered meanwhile
  }
}
