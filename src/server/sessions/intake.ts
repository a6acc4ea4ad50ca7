/** Code that is given to a hosted session, with an Idempotency-Key or without, and what whoever gives it waits for. */

import type { AcceptedExecution, ExecutionOutcome, HostedExecuteOptions, StartedExecution } from './contract.ts';
import { type Ended, HostedExecution } from './execution.ts';
import { type Entered, KeyedExecutions } from './keyed.ts';
import type { Requests } from './requests.ts';

export interface IntakeParts {
  readonly requests: Requests;
  /** Throws where nothing may begin. */
  readonly check: () => void;
  readonly submit: (execution: HostedExecution) => void;
}

export class Intake {
  readonly #parts: IntakeParts;
  readonly #keyed: KeyedExecutions;

  constructor(parts: IntakeParts) {
    this.#parts = parts;
    this.#keyed = new KeyedExecutions(parts.requests, parts.submit);
  }

  /** Resolves when the code is accepted. */
  async accept(code: string, options: HostedExecuteOptions): Promise<AcceptedExecution> {
    const { entered, joined } = await this.#enter(code, options);
    if (entered.kind === 'known') {
      const { execution, firstSeq } = entered.outcome;
      return { execution, joined, started: Promise.resolve(firstSeq), outcome: Promise.resolve(entered.outcome) };
    }
    const { execution } = entered;
    const outcome = execution.ended.then((ended) => toOutcome(ended, joined));
    // Who streams the events hears of it there.
    outcome.catch(() => {});
    return { execution: execution.id, started: execution.started, joined, outcome };
  }

  /** Resolves when its turn has come. */
  async start(code: string, options: HostedExecuteOptions): Promise<StartedExecution> {
    const { started, ...accepted } = await this.accept(code, options);
    return { ...accepted, firstSeq: await started };
  }

  /** Resolves when it is over. */
  async execute(code: string, options: HostedExecuteOptions): Promise<ExecutionOutcome> {
    const { entered, joined } = await this.#enter(code, options);
    return entered.kind === 'known' ? entered.outcome : toOutcome(await entered.execution.ended, joined);
  }

  /** False where none that came with this key waits or runs. */
  stop(idempotencyKey: string): Promise<boolean> {
    return this.#keyed.stop(idempotencyKey);
  }

  async #enter(code: string, options: HostedExecuteOptions): Promise<{ entered: Entered; joined: boolean }> {
    const { check, submit } = this.#parts;
    check();
    const { idempotencyKey } = options;
    if (idempotencyKey !== undefined) return await this.#keyed.enter(code, options, idempotencyKey);
    const execution = new HostedExecution(code, options);
    submit(execution);
    return { entered: { kind: 'live', execution }, joined: false };
  }
}

function toOutcome({ event, ...outcome }: Ended, joined: boolean): ExecutionOutcome {
  return { ...outcome, joined };
}
