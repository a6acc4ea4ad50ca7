/** Executions by their Idempotency-Key: a retry joins the one that runs, or gets what it has come to. */

import { CellaError } from '../../protocol/errors.ts';
import type { ExecutionOutcome, HostedExecuteOptions } from './contract.ts';
import { HostedExecution } from './execution.ts';
import { digest, type Requests, requestName } from './requests.ts';

/** One that runs, or what one came to that has ended. */
export type Entered =
  | { readonly kind: 'live'; readonly execution: HostedExecution }
  | { readonly kind: 'known'; readonly outcome: ExecutionOutcome };

export class KeyedExecutions {
  readonly #requests: Requests;
  readonly #submit: (execution: HostedExecution) => void;
  readonly #live = new Map<string, { readonly asked: string; readonly entered: Promise<Entered> }>();

  constructor(requests: Requests, submit: (execution: HostedExecution) => void) {
    this.#requests = requests;
    this.#submit = submit;
  }

  async enter(
    code: string,
    options: HostedExecuteOptions,
    idempotencyKey: string,
  ): Promise<{ readonly entered: Entered; readonly joined: boolean }> {
    const name = requestName(idempotencyKey);
    const asked = digest(code, options.timeoutMs, options.inputTimeoutMs, options.transaction);
    const there = this.#live.get(name);
    if (there) {
      if (there.asked !== asked) throw conflict();
      return { entered: await there.entered, joined: true };
    }
    const entered = this.#begin(code, options, { name, asked });
    this.#live.set(name, { asked, entered });
    const forget = () => this.#live.delete(name);
    const over = (execution: HostedExecution) => execution.ended.then(forget, () => execution.telling.then(forget));
    entered.then((one) => (one.kind === 'live' ? over(one.execution) : forget()), forget);
    const first = await entered;
    return { entered: first, joined: first.kind === 'known' };
  }

  /** False where none that came with this key waits or runs. */
  async stop(idempotencyKey: string): Promise<boolean> {
    const entered = await this.#live.get(requestName(idempotencyKey))?.entered;
    if (entered?.kind !== 'live') return false;
    entered.execution.stop();
    return true;
  }

  async #begin(
    code: string,
    options: HostedExecuteOptions,
    { name, asked }: { readonly name: string; readonly asked: string },
  ): Promise<Entered> {
    const request = await this.#requests.get(name);
    if (request && request.asked !== asked) throw conflict();
    // Without an outcome it never began: where it had, its ending would have been written down after the server's.
    const result = request && (await this.#requests.result(request));
    if (result) {
      const { execution, firstSeq = 0 } = request;
      return { kind: 'known', outcome: { execution, firstSeq, joined: true, result } };
    }
    const execution = new HostedExecution(code, options, name);
    await this.#requests.put(name, { execution: execution.id, asked, at: Date.now() });
    this.#submit(execution);
    return { kind: 'live', execution };
  }
}

function conflict(): CellaError {
  return new CellaError('IDEMPOTENCY_CONFLICT', 'This Idempotency-Key came with another request before.');
}
