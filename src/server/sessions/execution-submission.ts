/** Submits code to a session. A retry with the same Idempotency-Key joins the running execution or gets its result. */

import type { ExecutionResult } from '../../protocol/execution-events.ts';
import { fingerprint, type IdempotencyStore, IdempotentRequests } from './idempotency.ts';
import { ServerExecution } from './session-executions.ts';
import type { ExecutionHandle, ServerExecuteOptions } from './session-types.ts';

interface ExecutionSubmissionParts {
  readonly requests: IdempotencyStore;
  /** Throws if nothing may start. */
  readonly check: () => void;
  readonly submit: (execution: ServerExecution) => void;
}

/** An execution that has ended before. */
interface ReplayedExecution {
  readonly id: string;
  readonly firstSeq: number;
  readonly result: ExecutionResult;
}

export class ExecutionSubmission {
  readonly #parts: ExecutionSubmissionParts;
  readonly #keyed: IdempotentRequests<ServerExecution, ReplayedExecution>;

  constructor(parts: ExecutionSubmissionParts) {
    this.#parts = parts;
    this.#keyed = new IdempotentRequests(parts.requests, 'execute');
  }

  /** Resolves when the code is accepted. */
  async execute(code: string, options: ServerExecuteOptions): Promise<ExecutionHandle> {
    const { check, submit } = this.#parts;
    check();
    if (options.idempotencyKey !== undefined) return await this.#executeOnce(code, options, options.idempotencyKey);
    const execution = new ServerExecution(code, options);
    submit(execution);
    return execution.toHandle();
  }

  /** False if no execution with this key runs or waits. */
  async stop(idempotencyKey: string): Promise<boolean> {
    const execution = await this.#keyed.find(idempotencyKey);
    execution?.stop();
    return execution !== undefined;
  }

  async #executeOnce(code: string, options: ServerExecuteOptions, key: string): Promise<ExecutionHandle> {
    const { requests, submit } = this.#parts;
    const asked = fingerprint(code, options.timeoutMs, options.inputTimeoutMs, options.transaction);
    const submitted = await this.#keyed.submit(key, {
      fingerprint: asked,
      // Without a result it never started: if it had, the next server would have recorded its end.
      replay: async (record) => {
        const result = await requests.result(record);
        return result && { id: record.execution ?? '', firstSeq: record.firstSeq ?? 0, result };
      },
      start: async (name) => {
        const execution = new ServerExecution(code, options, name);
        await requests.put(name, { execution: execution.id, asked, at: Date.now() });
        submit(execution);
        return execution;
      },
      ended: (execution) => execution.ended.catch(() => execution.failureRecorded),
    });
    if ('live' in submitted) return submitted.live.toHandle(submitted.replayed);
    const { id, firstSeq, result } = submitted.ended;
    return { id, replayed: true, started: Promise.resolve(firstSeq), outcome: Promise.resolve(result) };
  }
}
