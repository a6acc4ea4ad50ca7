/** Submits code to a session. A retry with the same Idempotency-Key joins the running execution or gets its result. */

import { CellaError } from '../../protocol/errors.ts';
import { fingerprint, type IdempotencyStore, idempotencyName } from './idempotency.ts';
import { type EndedExecution, ServerExecution } from './session-executions.ts';
import type { AcceptedExecution, ExecutionOutcome, ServerExecuteOptions, StartedExecution } from './session-types.ts';

interface ExecutionSubmissionParts {
  readonly requests: IdempotencyStore;
  /** Throws where nothing may begin. */
  readonly check: () => void;
  readonly submit: (execution: ServerExecution) => void;
}

export class ExecutionSubmission {
  readonly #parts: ExecutionSubmissionParts;
  readonly #keyed: IdempotentExecutions;

  constructor(parts: ExecutionSubmissionParts) {
    this.#parts = parts;
    this.#keyed = new IdempotentExecutions(parts.requests, parts.submit);
  }

  /** Resolves when the code is accepted. */
  async accept(code: string, options: ServerExecuteOptions): Promise<AcceptedExecution> {
    const { entered, joined } = await this.#submit(code, options);
    if (entered.kind === 'known') {
      const { execution, firstSeq } = entered.outcome;
      return { execution, joined, started: Promise.resolve(firstSeq), outcome: Promise.resolve(entered.outcome) };
    }
    const { execution } = entered;
    const outcome = execution.ended.then((ended) => toExecutionOutcome(ended, joined));
    // Who streams the events hears of it there.
    outcome.catch(() => {});
    return { execution: execution.id, started: execution.started, joined, outcome };
  }

  /** Resolves when its turn has come. */
  async start(code: string, options: ServerExecuteOptions): Promise<StartedExecution> {
    const { started, ...accepted } = await this.accept(code, options);
    return { ...accepted, firstSeq: await started };
  }

  /** Resolves when it is over. */
  async execute(code: string, options: ServerExecuteOptions): Promise<ExecutionOutcome> {
    const { entered, joined } = await this.#submit(code, options);
    return entered.kind === 'known' ? entered.outcome : toExecutionOutcome(await entered.execution.ended, joined);
  }

  /** False where none that came with this key waits or runs. */
  stop(idempotencyKey: string): Promise<boolean> {
    return this.#keyed.stop(idempotencyKey);
  }

  async #submit(code: string, options: ServerExecuteOptions): Promise<{ entered: Submitted; joined: boolean }> {
    const { check, submit } = this.#parts;
    check();
    const { idempotencyKey } = options;
    if (idempotencyKey !== undefined) return await this.#keyed.submit(code, options, idempotencyKey);
    const execution = new ServerExecution(code, options);
    submit(execution);
    return { entered: { kind: 'live', execution }, joined: false };
  }
}

function toExecutionOutcome({ event, ...outcome }: EndedExecution, joined: boolean): ExecutionOutcome {
  return { ...outcome, joined };
}

/** One that runs, or what one came to that has ended. */
type Submitted =
  | { readonly kind: 'live'; readonly execution: ServerExecution }
  | { readonly kind: 'known'; readonly outcome: ExecutionOutcome };

class IdempotentExecutions {
  readonly #requests: IdempotencyStore;
  readonly #run: (execution: ServerExecution) => void;
  readonly #live = new Map<string, { readonly asked: string; readonly entered: Promise<Submitted> }>();

  constructor(requests: IdempotencyStore, submit: (execution: ServerExecution) => void) {
    this.#requests = requests;
    this.#run = submit;
  }

  async submit(
    code: string,
    options: ServerExecuteOptions,
    idempotencyKey: string,
  ): Promise<{ readonly entered: Submitted; readonly joined: boolean }> {
    const name = idempotencyName(idempotencyKey);
    const asked = fingerprint(code, options.timeoutMs, options.inputTimeoutMs, options.transaction);
    const there = this.#live.get(name);
    if (there) {
      if (there.asked !== asked) throw idempotencyConflict();
      return { entered: await there.entered, joined: true };
    }
    const entered = this.#begin(code, options, { name, asked });
    this.#live.set(name, { asked, entered });
    const forget = () => this.#live.delete(name);
    const over = (execution: ServerExecution) =>
      execution.ended.then(forget, () => execution.failureRecorded.then(forget));
    entered.then((one) => (one.kind === 'live' ? over(one.execution) : forget()), forget);
    const first = await entered;
    return { entered: first, joined: first.kind === 'known' };
  }

  /** False where none that came with this key waits or runs. */
  async stop(idempotencyKey: string): Promise<boolean> {
    const entered = await this.#live.get(idempotencyName(idempotencyKey))?.entered;
    if (entered?.kind !== 'live') return false;
    entered.execution.stop();
    return true;
  }

  async #begin(
    code: string,
    options: ServerExecuteOptions,
    { name, asked }: { readonly name: string; readonly asked: string },
  ): Promise<Submitted> {
    const request = await this.#requests.get(name);
    if (request && request.asked !== asked) throw idempotencyConflict();
    // Without an outcome it never began: where it had, its ending would have been written down after the server's.
    const result = request && (await this.#requests.result(request));
    if (result) {
      const { execution, firstSeq = 0 } = request;
      return { kind: 'known', outcome: { execution, firstSeq, joined: true, result } };
    }
    const execution = new ServerExecution(code, options, name);
    await this.#requests.put(name, { execution: execution.id, asked, at: Date.now() });
    this.#run(execution);
    return { kind: 'live', execution };
  }
}

function idempotencyConflict(): CellaError {
  return new CellaError('IDEMPOTENCY_CONFLICT', 'This Idempotency-Key came with another request before.');
}
