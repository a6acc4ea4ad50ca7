/**
 * One execution on the server, from being sent to its ending. Its key makes it run once, and the numbers of its events
 * let it be followed across connections that break and servers that are started again: nothing comes twice or is missed.
 */

import { Backoff } from '../lib/backoff.ts';
import { jsonLines } from '../lib/line-splitter.ts';
import { ExecuteCode, type Executed, InterruptCode, ReadEvents } from '../protocol/api/execution-routes.ts';
import { Failure } from '../protocol/error-body.ts';
import { CellaError, type ErrorCode } from '../protocol/errors.ts';
import { FeedItem, isExecutionEnd, type SessionEvent } from '../protocol/session-events.ts';
import type { ExecuteOptions } from '../session/api.ts';
import { isCode, toError } from './failure.ts';
import { checked, type Given, type Link } from './link.ts';
import { aborted, unreachable } from './transport.ts';

export interface ExecutionParts {
  readonly link: Link;
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
const PASSING: readonly ErrorCode[] = [
  'DAEMON_UNREACHABLE',
  'DAEMON_STOPPING',
  'SESSION_ELSEWHERE',
  'RATE_LIMITED',
  'QUOTA_EXCEEDED',
  'STORAGE_UNREACHABLE',
];

export class RemoteExecution {
  readonly #parts: ExecutionParts;
  readonly #key = newKey();
  readonly #onAbort = () => void this.#stop();
  #over = false;

  constructor(parts: ExecutionParts) {
    this.#parts = parts;
  }

  /** Resolves when the server has accepted it. A connection that breaks meanwhile is tried again. */
  async send(): Promise<Response> {
    const { signal } = this.#parts.options;
    if (signal?.aborted) throw this.#ended(aborted());
    signal?.addEventListener('abort', this.#onAbort, { once: true });
    return await this.#again((first) => {
      // Another server may be about to go on with the session; what else fails at first does not pass.
      const soon = ({ code, details }: CellaError) => details.refused === false || code === 'SESSION_ELSEWHERE';
      const passing = (error: CellaError) => (first ? soon(error) : PASSING.includes(error.code));
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
          if (closing.aborted || !isCode(error, ...PASSING)) throw error;
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
    return (await link.call(InterruptCode, { params: { id }, body: { idempotencyKey: this.#key } })).interrupted;
  }

  /** What it has come to, with all that a result keeps. It has ended: nothing runs by asking. */
  async result(): Promise<Executed> {
    return await this.#again(() => ({
      attempt: () => this.#parts.link.call(ExecuteCode, this.#request()),
      passing: ({ code }) => PASSING.includes(code),
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
    return link.open(ReadEvents, { params: { id }, query, accept: NDJSON, signal: closing });
  }

  #post(accept: string): Promise<Response> {
    return this.#parts.link.open(ExecuteCode, { ...this.#request(), accept });
  }

  #request() {
    const { sessionId: id, code, options, closing, stopWhenGone } = this.#parts;
    const { timeoutMs, inputTimeoutMs, transaction } = options;
    return {
      params: { id },
      body: { code, timeoutMs, inputTimeoutMs, transaction, stopWhenGone },
      idempotencyKey: this.#key,
      signal: closing,
    } satisfies Given<unknown>;
  }

  async *#read(response: Response): AsyncGenerator<SessionEvent, void, undefined> {
    const { link } = this.#parts;
    try {
      for await (const line of jsonLines(response)) {
        const failure = Failure.safeParse(line);
        if (failure.success && !('seq' in Object(line))) throw toError(failure.data.error);
        const item = checked(FeedItem, line, 'execute');
        if ('seq' in item) yield item;
      }
    } catch (error) {
      throw error instanceof CellaError ? error : unreachable(link.where, error);
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
        if (!isCode(error, ...PASSING)) return;
        await patience.wait(error).catch(() => {
          this.#over = true;
        });
      }
    }
  }

  #end(): void {
    this.#over = true;
    this.#parts.options.signal?.removeEventListener('abort', this.#onAbort);
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
export function newKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
}
