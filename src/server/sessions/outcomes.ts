/**
 * What executions come to, written down once: in the log, and for those that ask again with the same key. Where storage
 * does not work, it is told when it does.
 */

import { setTimeout as delay } from 'node:timers/promises';
import { CellaError } from '../../protocol/errors.ts';
import type { ResultEvent } from '../../protocol/execution-events.ts';
import type { SessionEventBody } from '../../protocol/session-events.ts';
import { type EventWriter, executionFailed } from './event-writer.ts';
import type { HostedExecution } from './execution.ts';
import type { Recorder } from './recorder.ts';
import type { Requests } from './requests.ts';

/** How often storage that does not work is tried again. */
const AGAIN_MS = 500;

export interface OutcomesParts {
  readonly writer: EventWriter;
  readonly requests: Requests;
  /** Whether a result is flushed to the disk before it is told. */
  readonly flushResults: boolean;
  /** Nobody tells anything after that. */
  readonly closed: () => boolean;
}

export class Outcomes {
  readonly #parts: OutcomesParts;
  /** Those that are known and may not be in the log. */
  readonly #results = new Map<string, SessionEventBody>();

  constructor(parts: OutcomesParts) {
    this.#parts = parts;
  }

  /** What an execution has come to, where that could not be written down. */
  resultOf(execution: string): SessionEventBody | undefined {
    return this.#results.get(execution);
  }

  /** `onWritten` is called before anybody who waits is told. */
  async finish(
    execution: HostedExecution,
    recorder: Recorder,
    { ended, onWritten }: { readonly ended: ResultEvent; readonly onWritten: () => void },
  ): Promise<void> {
    const { writer, requests, flushResults } = this.#parts;
    const { event, result } = await recorder.end(ended);
    const { request: name } = execution;
    const request = name === undefined ? undefined : await requests.get(name);
    if (name !== undefined && request) {
      await requests.finish(name, { ...request, firstSeq: await execution.started }, result);
    }
    this.#results.set(execution.id, event);
    await writer.write(event, { flushed: flushResults });
    this.#results.delete(execution.id);
    onWritten();
    await execution.end(result, ended);
  }

  /** It has begun: the log must tell that it has ended, where it can be told anything. */
  async fail(execution: HostedExecution, cause: unknown): Promise<never> {
    const error = execution.failure ?? (cause instanceof CellaError ? cause : failed(cause));
    // Where its beginning could not be written down, the writer tells what became of it.
    const begun = await execution.started.then(
      () => true,
      () => false,
    );
    try {
      if (begun) await this.#tellFailure(execution, error);
    } catch {
      // Storage does not work. What has begun must not begin again, so nobody gives up on it.
      execution.telling = this.#tellLater(execution, error);
    }
    throw error;
  }

  async #tellFailure(execution: HostedExecution, error: CellaError): Promise<void> {
    const { writer, requests } = this.#parts;
    const { request: name } = execution;
    const firstSeq = await execution.started;
    const request = name === undefined ? undefined : await requests.get(name);
    if (name !== undefined && request && !request.outcome) await requests.finish(name, { ...request, firstSeq }, error);
    await writer.write(executionFailed(execution.id, error), { flushed: true });
    this.#results.delete(execution.id);
  }

  /** When the session ends first, whoever opens it next finds that it has not ended. */
  async #tellLater(execution: HostedExecution, error: CellaError): Promise<void> {
    while (!this.#parts.closed()) {
      await delay(AGAIN_MS, undefined, { ref: false });
      const told = await this.#tellFailure(execution, error).then(
        () => true,
        () => false, // storage still does not work
      );
      if (told) return;
    }
  }
}

function failed(cause: unknown): CellaError {
  return new CellaError('EXECUTION_LOST', `The execution ended with an error of the server: ${String(cause)}.`, {
    cause,
  });
}
