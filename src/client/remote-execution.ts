/**
 * Executions at the server, from sending the code to the result. An Idempotency-Key makes each run exactly once. Sequence
 * numbers let the client resume after a broken connection or a server restart without missing or repeating an event.
 */

import { onAbort, raceAbort } from '../lib/abort.ts';
import { Backoff } from '../lib/backoff.ts';
import { jsonLines } from '../lib/line-splitter.ts';
import type { Executed } from '../protocol/api/execution-routes.ts';
import type { ErrorCode } from '../protocol/error-codes.ts';
import { CellaError } from '../protocol/errors.ts';
import { type Answerable, type ExecutionEvent, giveInput, type ResultEvent } from '../protocol/execution-events.ts';
import { ErrorBody } from '../protocol/parse.ts';
import { isExecutionEnd, type SessionEvent, StreamItem } from '../protocol/session-events.ts';
import type { SessionInfo } from '../protocol/session-info.ts';
import type * as api from '../session/api.ts';
import type { ExecuteOptions } from '../session/api.ts';
import { type ApiClient, errorFromBody, hasCode, parseResponse } from './api-client.ts';
import { InputRefuser, toExecutionEvents } from './execution-stream.ts';
import { SERVER_GONE } from './subscribe.ts';
import { aborted, serverUnreachable } from './transport.ts';

interface RemoteExecutionOptions {
  readonly api: ApiClient;
  readonly sessionId: string;
  readonly code: string;
  readonly options: ExecuteOptions;
  /** How long to retry a lost connection. */
  readonly resumeMs: number;
  /** Aborted when this client closes the session. */
  readonly closing: AbortSignal;
  /** Makes the server interrupt the code if this client disconnects. */
  readonly stopWhenGone?: boolean | undefined;
}

const STREAM = { accept: 'application/x-ndjson', answersAtOnce: true };
/** Errors after which the client resumes: also those of a server that is overloaded for a while. */
const TRANSIENT: readonly ErrorCode[] = [...SERVER_GONE, 'RATE_LIMITED', 'QUOTA_EXCEEDED', 'STORAGE_UNREACHABLE'];

class RemoteExecution {
  readonly #parts: RemoteExecutionOptions;
  readonly #key = newIdempotencyKey();
  #aborting: Disposable | undefined;
  #over = false;

  constructor(parts: RemoteExecutionOptions) {
    this.#parts = parts;
  }

  /** Resolves when the server has accepted the code. Retries broken connections. */
  async send(): Promise<Response> {
    const { signal } = this.#parts.options;
    if (signal?.aborted) throw this.#ended(aborted());
    this.#aborting = onAbort(signal, () => void this.#stop());
    return await this.#again((first) => {
      // Another server may be about to take over the session. Any other failure of the first attempt is final.
      const soon = ({ code, details }: CellaError) => details.refused === false || code === 'SESSION_ELSEWHERE';
      const passing = (error: CellaError) => (first ? soon(error) : TRANSIENT.includes(error.code));
      return { attempt: () => this.#post(), passing };
    });
  }

  /** `first` is the result of `send`. */
  async *events(first: Promise<Response>): AsyncGenerator<SessionEvent, void, undefined> {
    const { resumeMs, closing } = this.#parts;
    const backoff = new Backoff(resumeMs);
    let response: Response | undefined;
    let seen: SessionEvent | undefined;
    try {
      response = await first;
      while (true) {
        try {
          response ??= await this.#resume(seen);
          backoff.restartDeadline();
          for await (const event of this.#read(response)) {
            backoff.reset();
            if (event.seq <= (seen?.seq ?? 0)) continue;
            seen = event;
            this.#over = isExecutionEnd(event);
            yield event;
            if (isExecutionEnd(event)) return;
          }
          throw new CellaError('EVENTS_GONE', 'The events of the execution have been removed.');
        } catch (error) {
          if (closing.aborted || !hasCode(error, ...TRANSIENT)) throw error;
          await backoff.wait(error, retryAfter(error));
          response = undefined;
        }
      }
    } catch (error) {
      throw this.#ended(error);
    } finally {
      this.#end();
    }
  }

  /** Returns false if the code has not reached the server yet, or is over. */
  async interrupt(): Promise<boolean> {
    const { api, sessionId: id } = this.#parts;
    return (await api.call('interruptCode', { params: { id }, body: { idempotencyKey: this.#key } })).interrupted;
  }

  /** The complete result. Call it only after the execution has ended: the same key then runs nothing. */
  async result(): Promise<Executed> {
    return await this.#again(() => ({
      attempt: () => this.#parts.api.call('executeCode', this.#request()),
      passing: ({ code }) => TRANSIENT.includes(code),
    }));
  }

  async #again<T>(
    next: (first: boolean) => { attempt: () => Promise<T>; passing: (error: CellaError) => boolean },
  ): Promise<T> {
    const backoff = new Backoff(this.#parts.resumeMs);
    for (let first = true; ; first = false) {
      const { attempt, passing } = next(first);
      try {
        return await attempt();
      } catch (error) {
        if (!(error instanceof CellaError) || this.#parts.closing.aborted || !passing(error)) throw this.#ended(error);
        await backoff.wait(error, retryAfter(error));
      }
    }
  }

  /** Before the first event, posting again with the same key finds the execution. */
  #resume(seen: SessionEvent | undefined): Promise<Response> {
    if (!seen || !('execution' in seen)) return this.#post();
    const { api, sessionId: id, closing } = this.#parts;
    const query = { after: seen.seq, execution: seen.execution };
    return api.open('readEvents', { params: { id }, query, ...STREAM, signal: closing });
  }

  #post(): Promise<Response> {
    return this.#parts.api.open('executeCode', { ...this.#request(), ...STREAM });
  }

  #request() {
    const { sessionId: id, code, options, closing, stopWhenGone } = this.#parts;
    const { timeoutMs, inputTimeoutMs, transaction } = options;
    return {
      params: { id },
      body: { code, timeoutMs, inputTimeoutMs, transaction, stopWhenGone },
      headers: { 'Idempotency-Key': this.#key },
      signal: closing,
    };
  }

  async *#read(response: Response): AsyncGenerator<SessionEvent, void, undefined> {
    const { api } = this.#parts;
    try {
      for await (const line of jsonLines(response)) {
        const failure = ErrorBody.safeParse(line);
        if (failure.success && !('seq' in Object(line))) throw errorFromBody(failure.data.error);
        const item = parseResponse(StreamItem, line, 'execute');
        if ('seq' in item) yield item;
      }
    } catch (error) {
      throw error instanceof CellaError ? error : serverUnreachable(api.address, error);
    }
  }

  /** Retries until the server knows the execution: the interrupt may overtake the code. */
  async #stop(): Promise<void> {
    const backoff = new Backoff(this.#parts.resumeMs);
    while (!this.#over) {
      try {
        if (await this.interrupt()) return;
        await backoff.wait(aborted());
      } catch (error) {
        // The caller that waits for the result gets the error.
        if (!hasCode(error, ...TRANSIENT)) return;
        await backoff.wait(error).catch(() => {
          this.#over = true;
        });
      }
    }
  }

  #end(): void {
    this.#over = true;
    this.#aborting?.[Symbol.dispose]();
  }

  #ended(error: unknown): unknown {
    this.#end();
    if (!this.#parts.closing.aborted) return error;
    return new CellaError('SESSION_CLOSED', 'The session was closed here. Its code continues at the server.');
  }
}

function retryAfter({ details }: CellaError): number {
  return typeof details.retryAfterMs === 'number' ? details.retryAfterMs : 0;
}

/** Browsers offer `randomUUID` only on secure pages. */
export function newIdempotencyKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** How long the server has to stop the executions of this client. */
const STOPPING_MS = 5000;

interface RemoteExecutionsOptions {
  readonly api: ApiClient;
  readonly info: SessionInfo;
  readonly resumeMs: number;
  readonly closing: AbortSignal;
  readonly session: Answerable;
  readonly stopWhenGone: boolean;
}

export class RemoteExecutions {
  readonly #parts: RemoteExecutionsOptions;
  readonly #refuser: InputRefuser;
  /** Executions are sent one after the other, each once the server accepted the previous one. */
  #sent: Promise<unknown> = Promise.resolve();
  /** Executions that are not over, oldest first. */
  readonly #live = new Set<RemoteExecution>();

  constructor(parts: RemoteExecutionsOptions) {
    this.#parts = parts;
    this.#refuser = new InputRefuser(parts.session);
  }

  async run(code: string, { onEvent, onInput, ...options }: api.RunOptions): Promise<ResultEvent> {
    let failure: { readonly error: unknown } | undefined;
    for await (const event of this.#begin(code, options)) {
      if (event.type === 'input_request') void giveInput(this.#parts.session, event, onInput);
      try {
        onEvent?.(event);
      } catch (error) {
        // An error of the caller's callback is thrown once the code is done.
        failure ??= { error };
      }
      if (event.type !== 'result') continue;
      if (failure) throw failure.error;
      return event;
    }
    throw new CellaError('EXECUTION_LOST', 'The execution ended without a result.');
  }

  stream(code: string, options: api.ExecuteOptions): AsyncGenerator<ExecutionEvent> {
    return this.#refuser.whileRead(this.#begin(code, options));
  }

  /** Starts sending the code before it returns. */
  #begin(code: string, options: api.ExecuteOptions): AsyncGenerator<ExecutionEvent, void, undefined> {
    if (this.#parts.closing.aborted) throw sessionClosedHere();
    if (typeof code !== 'string') throw new CellaError('INVALID_OPTIONS', `The code must be text, not ${typeof code}.`);
    const { api, info, resumeMs, closing, stopWhenGone } = this.#parts;
    const params = { id: info.id };
    const parts = { api, sessionId: info.id, code, options, resumeMs, closing };
    const execution = new RemoteExecution({ ...parts, ...(stopWhenGone ? { stopWhenGone } : {}) });
    this.#live.add(execution);
    const first = raceAbort(this.#sent, options.signal, aborted).then(() => execution.send());
    first.catch(() => {}); // the reader of the events gets it
    const over = Promise.withResolvers<void>();
    // If connections are scarce, executions use one at a time.
    const done = api.allowsManyConnections ? first : first.then(() => over.promise);
    const before = this.#sent;
    this.#sent = done.then(
      () => {},
      () => before,
    );
    const events = toExecutionEvents({
      events: execution.events(first),
      result: () => execution.result(),
      read: (file, offset) =>
        api.open('readOutput', { params: { ...params, file }, query: { offset }, signal: closing }),
      limit: info.settings.outputLimitBytes ?? 0,
      resumeMs,
    });
    return withCleanup(events, () => {
      this.#live.delete(execution);
      over.resolve();
    });
  }

  /** Interrupts the oldest execution of this client. Returns false if there is none. */
  async interrupt(): Promise<boolean> {
    const [first] = this.#live;
    return (await first?.interrupt()) ?? false;
  }

  /** Interrupts all executions of this client. Gives up if the server does not answer. */
  async stop(): Promise<void> {
    const late = AbortSignal.timeout(STOPPING_MS);
    const given = new Promise<void>((resolve) => late.addEventListener('abort', () => resolve(), { once: true }));
    await Promise.race([this.#interruptAll().catch(() => {}), given]);
  }

  async #interruptAll(): Promise<void> {
    // Newest first, so that no queued execution starts meanwhile.
    for (const execution of [...this.#live].toReversed()) await execution.interrupt();
  }
}

export function sessionClosedHere(): CellaError {
  return new CellaError('SESSION_CLOSED', 'The session was closed here.');
}

async function* withCleanup<T>(
  events: AsyncGenerator<T, void, undefined>,
  over: () => void,
): AsyncGenerator<T, void, undefined> {
  try {
    yield* events;
  } finally {
    over();
  }
}
