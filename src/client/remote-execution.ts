/**
 * Executions at the server, from sending the code to their end. An Idempotency-Key makes each run once; sequence numbers let
 * the client resume after a broken connection or a restart of the server, so no event is missed or comes twice.
 */

import { onAbort, raceAbort } from '../lib/abort.ts';
import { Backoff } from '../lib/backoff.ts';
import { jsonLines } from '../lib/line-splitter.ts';
import type { Executed } from '../protocol/api/execution-routes.ts';
import { ErrorBody } from '../protocol/error-body.ts';
import { CellaError, type ErrorCode } from '../protocol/errors.ts';
import type { ExecutionEvent, ResultEvent } from '../protocol/execution-events.ts';
import { isExecutionEnd, type SessionEvent, StreamItem } from '../protocol/session-events.ts';
import type { SessionInfo } from '../protocol/session-info.ts';
import type * as api from '../session/api.ts';
import type { ExecuteOptions } from '../session/api.ts';
import { type ApiClient, errorFromBody, hasCode, parseResponse } from './api-client.ts';
import { type Answerable, InputResponder, toExecutionEvents } from './execution-stream.ts';
import { aborted, unreachable } from './transport.ts';

interface RemoteExecutionOptions {
  readonly link: ApiClient;
  readonly sessionId: string;
  readonly code: string;
  readonly options: ExecuteOptions;
  /** How long a lost connection is tried again. */
  readonly resumeMs: number;
  /** Aborted where the session is closed here. */
  readonly closing: AbortSignal;
  /** Has the server interrupt it where this client goes away. */
  readonly stopWhenGone?: boolean | undefined;
}

const NDJSON = 'application/x-ndjson';
/** Of a server that ends, is started again, or has too much to do for a while. */
const TRANSIENT: readonly ErrorCode[] = [
  'SERVER_UNREACHABLE',
  'SERVER_STOPPING',
  'SESSION_ELSEWHERE',
  'RATE_LIMITED',
  'QUOTA_EXCEEDED',
  'STORAGE_UNREACHABLE',
];

class RemoteExecution {
  readonly #parts: RemoteExecutionOptions;
  readonly #key = newIdempotencyKey();
  #aborting: Disposable | undefined;
  #over = false;

  constructor(parts: RemoteExecutionOptions) {
    this.#parts = parts;
  }

  /** Resolves when the server has accepted it. A connection that breaks meanwhile is tried again. */
  async send(): Promise<Response> {
    const { signal } = this.#parts.options;
    if (signal?.aborted) throw this.#ended(aborted());
    this.#aborting = onAbort(signal, () => void this.#stop());
    return await this.#again((first) => {
      // Another server may be about to go on with the session; what else fails at first does not pass.
      const soon = ({ code, details }: CellaError) => details.refused === false || code === 'SESSION_ELSEWHERE';
      const passing = (error: CellaError) => (first ? soon(error) : TRANSIENT.includes(error.code));
      return { attempt: () => this.#post(NDJSON), passing };
    });
  }

  /** `first` is what `send` gave. */
  async *events(first: Promise<Response>): AsyncGenerator<SessionEvent, void, undefined> {
    const { resumeMs, closing } = this.#parts;
    const patience = new Backoff(resumeMs);
    let response: Response | undefined;
    let seen: SessionEvent | undefined;
    try {
      response = await first;
      while (true) {
        try {
          response ??= await this.#resume(seen);
          patience.restartDeadline();
          for await (const event of this.#read(response)) {
            patience.reset();
            if (event.seq <= (seen?.seq ?? 0)) continue;
            seen = event;
            this.#over = isExecutionEnd(event);
            yield event;
            if (isExecutionEnd(event)) return;
          }
          throw new CellaError('EVENTS_GONE', 'The events of the execution are no longer kept.');
        } catch (error) {
          if (closing.aborted || !hasCode(error, ...TRANSIENT)) throw error;
          await patience.wait(error, retryAfter(error));
          response = undefined;
        }
      }
    } catch (error) {
      throw this.#ended(error);
    } finally {
      this.#end();
    }
  }

  /** False where it has not arrived there yet, or is over. */
  async interrupt(): Promise<boolean> {
    const { link, sessionId: id } = this.#parts;
    return (await link.call('interruptCode', { params: { id }, body: { idempotencyKey: this.#key } })).interrupted;
  }

  /** What it has come to, with all that a result keeps. It has ended: nothing runs by asking. */
  async result(): Promise<Executed> {
    return await this.#again(() => ({
      attempt: () => this.#parts.link.call('executeCode', this.#request()),
      passing: ({ code }) => TRANSIENT.includes(code),
    }));
  }

  async #again<T>(
    next: (first: boolean) => { attempt: () => Promise<T>; passing: (error: CellaError) => boolean },
  ): Promise<T> {
    const patience = new Backoff(this.#parts.resumeMs);
    for (let first = true; ; first = false) {
      const { attempt, passing } = next(first);
      try {
        return await attempt();
      } catch (error) {
        if (!(error instanceof CellaError) || this.#parts.closing.aborted || !passing(error)) throw this.#ended(error);
        await patience.wait(error, retryAfter(error));
      }
    }
  }

  /** Where nothing of it was seen, its key finds it. */
  #resume(seen: SessionEvent | undefined): Promise<Response> {
    if (!seen || !('execution' in seen)) return this.#post(NDJSON);
    const { link, sessionId: id, closing } = this.#parts;
    const query = { after: seen.seq, execution: seen.execution };
    return link.open('readEvents', { params: { id }, query, accept: NDJSON, signal: closing });
  }

  #post(accept: string): Promise<Response> {
    return this.#parts.link.open('executeCode', { ...this.#request(), accept });
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
    const { link } = this.#parts;
    try {
      for await (const line of jsonLines(response)) {
        const failure = ErrorBody.safeParse(line);
        if (failure.success && !('seq' in Object(line))) throw errorFromBody(failure.data.error);
        const item = parseResponse(StreamItem, line, 'execute');
        if ('seq' in item) yield item;
      }
    } catch (error) {
      throw error instanceof CellaError ? error : unreachable(link.address, error);
    }
  }

  /** Until the server knows of it: it may have been asked before the code has arrived there. */
  async #stop(): Promise<void> {
    const patience = new Backoff(this.#parts.resumeMs);
    while (!this.#over) {
      try {
        if (await this.interrupt()) return;
        await patience.wait(aborted());
      } catch (error) {
        // Whoever waits for the result is told what is wrong.
        if (!hasCode(error, ...TRANSIENT)) return;
        await patience.wait(error).catch(() => {
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
    return new CellaError('SESSION_CLOSED', 'The session was closed here. Its code goes on at the server.');
  }
}

function retryAfter({ details }: CellaError): number {
  return typeof details.retryAfterMs === 'number' ? details.retryAfterMs : 0;
}

/** Browsers have `randomUUID` on some pages alone. */
export function newIdempotencyKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** How long a server has to stop what was begun here. */
const STOPPING_MS = 5000;

interface RemoteExecutionsOptions {
  readonly link: ApiClient;
  readonly info: SessionInfo;
  readonly resumeMs: number;
  readonly closing: AbortSignal;
  readonly session: Answerable;
  readonly stopWhenGone: boolean;
}

export class RemoteExecutions {
  readonly #parts: RemoteExecutionsOptions;
  readonly #answers: InputResponder;
  /** The next goes when the one before was accepted. */
  #sent: Promise<unknown> = Promise.resolve();
  /** Those that are not over, the oldest first. */
  readonly #live = new Set<RemoteExecution>();

  constructor(parts: RemoteExecutionsOptions) {
    this.#parts = parts;
    this.#answers = new InputResponder(parts.session);
  }

  async run(code: string, { onEvent, onInput, ...options }: api.RunOptions): Promise<ResultEvent> {
    let failure: { readonly error: unknown } | undefined;
    for await (const event of this.#begin(code, options)) {
      if (event.type === 'input_request') void this.#answers.give(event, onInput);
      try {
        onEvent?.(event);
      } catch (error) {
        // The caller's own mistake is the caller's to hear of, when the code is done.
        failure ??= { error };
      }
      if (event.type !== 'result') continue;
      if (failure) throw failure.error;
      return event;
    }
    throw new CellaError('EXECUTION_LOST', 'The execution ended without a result.');
  }

  stream(code: string, options: api.ExecuteOptions): AsyncGenerator<ExecutionEvent> {
    return this.#answers.whileRead(this.#begin(code, options));
  }

  /** It is on its way when this returns. */
  #begin(code: string, options: api.ExecuteOptions): AsyncGenerator<ExecutionEvent, void, undefined> {
    if (this.#parts.closing.aborted) throw sessionClosed();
    if (typeof code !== 'string') throw new CellaError('INVALID_OPTIONS', `The code must be text, not ${typeof code}.`);
    const { link, info, resumeMs, closing, stopWhenGone } = this.#parts;
    const params = { id: info.id };
    const parts = { link, sessionId: info.id, code, options, resumeMs, closing };
    const execution = new RemoteExecution({ ...parts, ...(stopWhenGone ? { stopWhenGone } : {}) });
    this.#live.add(execution);
    const first = raceAbort(this.#sent, options.signal, aborted).then(() => execution.send());
    first.catch(() => {}); // told to who reads
    const over = Promise.withResolvers<void>();
    // Where few connections can be open, one execution has one.
    const done = link.allowsManyConnections ? first : first.then(() => over.promise);
    const before = this.#sent;
    this.#sent = done.then(
      () => {},
      () => before,
    );
    const events = toExecutionEvents({
      events: execution.events(first),
      result: () => execution.result(),
      read: (file, offset) =>
        link.open('readOutput', { params: { ...params, file }, query: { offset }, signal: closing }),
      limit: info.settings.outputLimitBytes ?? 0,
      resumeMs,
    });
    return withCleanup(events, () => {
      this.#live.delete(execution);
      over.resolve();
    });
  }

  /** The one that was begun here before the others. False where there is none. */
  async interrupt(): Promise<boolean> {
    const [first] = this.#live;
    return (await first?.interrupt()) ?? false;
  }

  /** All that was begun here and is not over. A server that does not answer cannot be told. */
  async stop(): Promise<void> {
    const late = AbortSignal.timeout(STOPPING_MS);
    const given = new Promise<void>((resolve) => late.addEventListener('abort', () => resolve(), { once: true }));
    await Promise.race([this.#interruptAll().catch(() => {}), given]);
  }

  async #interruptAll(): Promise<void> {
    // The last first, so that none of them begins.
    for (const execution of [...this.#live].toReversed()) await execution.interrupt();
  }
}

export function sessionClosed(): CellaError {
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
