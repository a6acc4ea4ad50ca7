/** Streamed responses, as JSON lines or server-sent events: as fast as the client reads, while it may read. */

import type { UnderlyingSource } from 'node:stream/web';
import { AsyncQueue } from '../../lib/queues.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { DepsLine } from '../../protocol/namespace-models.ts';
import type { StreamItem } from '../../protocol/session-events.ts';
import type { Principal } from '../access/authorization.ts';
import { drainingError } from '../request-errors.ts';
import type { ServerSession } from '../sessions/server-session.ts';
import { errorBody, toCellaError } from './error-response.ts';
import { abortConnection, type RequestContext } from './request-context.ts';
import type { Reauthorize } from './router.ts';
import type { ServerContext, StreamLimits } from './server-context.ts';

interface ResponseOptions {
  readonly form: Exclude<StreamFormat, 'json'>;
  readonly principal: Principal;
  /** Where that is not known yet, nothing is sent before. */
  readonly after: number | Promise<number>;
  /** Only of this execution, and to its end. */
  readonly execution?: string | undefined;
  /** Only of this turn, and to its end. */
  readonly turn?: string | undefined;
  readonly reauthorize: Reauthorize;
  readonly cut: () => void;
  readonly onGone?: () => void;
}

export function streamEvents(service: ServerContext, session: ServerSession, options: ResponseOptions): Response {
  const { after, execution, turn } = options;
  const source = (signal: AbortSignal) => eventsFrom(session, { after, execution, turn, signal });
  return streamUntilGone(service, source, options);
}

/** Whatever comes, for as long as somebody may read it. The source ends when its signal is aborted. */
export function streamUntilGone(
  { metrics, limits, ending, followers }: ServerContext,
  source: (signal: AbortSignal) => AsyncIterable<object>,
  { form, principal, reauthorize, cut, onGone }: Omit<ResponseOptions, 'after' | 'execution' | 'turn'>,
): Response {
  const left = followers.enter(principal, form);
  return streamResponse((signal) => toStreamed(source(AbortSignal.any([signal, ending])), ending), {
    form,
    ...limits,
    cut,
    refusal: async () => {
      const refusal = await whyForbidden(reauthorize);
      return refusal && { type: 'error', ...errorBody(refusal) };
    },
    onEnd: (why) => {
      left();
      if (why === 'slow' || why === 'refused') metrics.dropped(why);
      if (why === 'gone') onGone?.();
    },
  });
}

interface ResponseFilter extends Pick<ResponseOptions, 'after' | 'execution' | 'turn'> {
  readonly signal: AbortSignal;
}

async function* eventsFrom(
  session: ServerSession,
  { after, execution, turn, signal }: ResponseFilter,
): AsyncGenerator<StreamItem> {
  const of = { execution, turn };
  yield* session.events({ after: await after, ...of, signal });
}

/** What ends the stream before its time is its last line, so that nobody takes it for the end. */
async function* toStreamed(events: AsyncIterable<object>, ending: AbortSignal): AsyncIterable<StreamedItem> {
  try {
    for await (const event of events) {
      yield 'seq' in event && typeof event.seq === 'number' ? { id: event.seq, data: event } : { data: event };
    }
  } catch (error) {
    if (!ending.aborted) yield { data: { type: 'error', ...errorBody(toCellaError(error, '-')) } };
  }
  if (!ending.aborted) return;
  yield { data: { type: 'error', ...errorBody(drainingError('Read on from the last number you have.')) } };
}

/** Why somebody may no longer read; undefined where they may. */
export async function whyForbidden(reauthorize: Reauthorize): Promise<CellaError | undefined> {
  try {
    await reauthorize();
    return undefined;
  } catch (error) {
    // Storage that does not answer now says nothing of who may read.
    const isRefusal = error instanceof CellaError && ['UNAUTHENTICATED', 'FORBIDDEN', 'NOT_FOUND'].includes(error.code);
    return isRefusal ? error : undefined;
  }
}

type DepsChange = Extract<DepsLine, { type: 'result' }>['result'];
/** `signal` is aborted where the client has gone. */
export type DepsWork = (options: { signal: AbortSignal; onProgress?: (text: string) => void }) => Promise<DepsChange>;

/** One JSON object for whoever does not ask for lines. */
export async function withProgress(
  { limits }: Pick<ServerContext, 'limits'>,
  context: RequestContext,
  work: DepsWork,
): Promise<DepsChange | Response> {
  const { signal } = context.req.raw;
  const form = negotiateFormat(context.req.header('accept'));
  if (form === 'json') return await work({ signal });
  return streamResponse((gone) => progressLines(work, AbortSignal.any([gone, signal])), {
    form,
    ...limits,
    refusal: async () => undefined,
    onEnd: () => {},
    cut: () => abortConnection(context.env),
  });
}

/** Of a client that reads slowly, only the newest lines wait. */
const MOST_WAITING = 100;

async function* progressLines(work: DepsWork, signal: AbortSignal): AsyncGenerator<StreamedItem, void, undefined> {
  const lines = new AsyncQueue<DepsLine>({ dropAbove: MOST_WAITING });
  const done = work({ signal, onProgress: (text) => lines.push({ type: 'progress', text }) });
  done.catch(() => {}).finally(() => lines.end()); // a failure is the last line
  for await (const line of lines) yield { data: line };
  try {
    yield { data: { type: 'result', result: await done } satisfies DepsLine };
  } catch (error) {
    yield { data: { type: 'error', ...errorBody(toCellaError(error, '-')) } };
  }
}

interface GuardStreamOptions extends Pick<StreamLimits, 'patienceMs' | 'heartbeatMs'> {
  readonly reauthorize: Reauthorize;
  /** Told once, when it is over. */
  readonly onEnd: () => void;
  /** Ends the connection of a client that does not read. */
  readonly cut: () => void;
}

export function guardStream(body: ReadableStream<Uint8Array>, options: GuardStreamOptions): ReadableStream<Uint8Array> {
  const { reauthorize, onEnd, cut, patienceMs, heartbeatMs } = options;
  const reader = body.getReader();
  let slow: NodeJS.Timeout | undefined;
  let over = false;
  const end = async () => {
    clearTimeout(slow);
    clearInterval(checks);
    if (!over) onEnd();
    over = true;
    await reader.cancel().catch(() => {}); // it has failed before
  };
  const checks = setInterval(async () => {
    if (await whyForbidden(reauthorize)) await end();
  }, heartbeatMs).unref();
  const pull = async (controller: ReadableStreamDefaultController<Uint8Array>) => {
    clearTimeout(slow);
    const next = await reader.read().catch(() => undefined); // the client sees that it is cut
    if (!next || next.done) {
      await end();
      return next ? controller.close() : cut();
    }
    controller.enqueue(next.value);
    slow = setTimeout(() => void end().then(cut), patienceMs).unref();
  };
  return new ReadableStream({ pull, cancel: end }, { highWaterMark: 0 });
}

type StreamFormat = 'json' | 'ndjson' | 'sse';

const NDJSON = 'application/x-ndjson';
export const SSE = 'text/event-stream';

/** What the client would rather have; JSON where it does not say. */
export function negotiateFormat(accept: string | undefined): StreamFormat {
  const wanted = (accept ?? '').toLowerCase();
  if (wanted.includes(SSE)) return 'sse';
  if (wanted.includes(NDJSON) || wanted.includes('application/jsonl')) return 'ndjson';
  return 'json';
}

/** One event on the wire; `id` is what a client names to go on from it. */
interface StreamedItem {
  readonly id?: number;
  readonly data: unknown;
}

interface StreamOptions {
  readonly form: Exclude<StreamFormat, 'json'>;
  /** How long a client may take to read what it was sent. */
  readonly patienceMs: number;
  /** After this long without an event something is sent, so that nobody in between takes the connection for dead. */
  readonly heartbeatMs: number;
  /** What to say last where the client may no longer read; asked as often as there is a heartbeat, or would be. */
  readonly refusal: () => Promise<unknown>;
  readonly onEnd: (why: StreamEnd) => void;
  /** Ends the connection of a client that does not read. */
  readonly cut: () => void;
}

type StreamEnd = 'complete' | 'gone' | 'slow' | 'refused';

const encoder = new TextEncoder();

/** Gives events until there are no more, or the signal says that nobody is there to read them. */
type StreamedSource = (signal: AbortSignal) => AsyncIterable<StreamedItem>;

/** The stream pulls: an event is taken only when the client has room for it. */
function streamResponse(items: StreamedSource, options: StreamOptions): Response {
  const { form } = options;
  const body = new ReadableStream<Uint8Array>(new StreamPump(items, options), { highWaterMark: 1 });
  const headers = {
    'content-type': form === 'sse' ? `${SSE}; charset=utf-8` : NDJSON,
    // Proxies must not wait for more.
    'x-accel-buffering': 'no',
  };
  return new Response(body, { headers });
}

class StreamPump implements UnderlyingSource<Uint8Array> {
  readonly #items: AsyncIterator<StreamedItem>;
  readonly #over = new AbortController();
  readonly #options: StreamOptions;
  #next: Promise<IteratorResult<StreamedItem>> | undefined;
  #slow: NodeJS.Timeout | undefined;
  #checkedAt = performance.now();
  #refused = false;
  #ended = false;

  constructor(items: StreamedSource, options: StreamOptions) {
    this.#items = items(this.#over.signal)[Symbol.asyncIterator]();
    this.#options = options;
  }

  /** The head of the answer goes out at once, before the first event. */
  start(controller: ReadableStreamDefaultController<Uint8Array>): void {
    controller.enqueue(encoder.encode(this.#options.form === 'sse' ? ': events follow\n\n' : ''));
  }

  async pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    clearTimeout(this.#slow);
    const text = await this.#text();
    if (this.#ended) return;
    if (text === undefined) {
      this.#end(this.#refused ? 'refused' : 'complete');
      controller.close();
      return;
    }
    controller.enqueue(encoder.encode(text));
    this.#slow = setTimeout(() => {
      this.#end('slow');
      this.#options.cut();
    }, this.#options.patienceMs);
  }

  cancel(): void {
    this.#end('gone');
  }

  /** The next event, or a sign of life; undefined at the end. */
  async #text(): Promise<string | undefined> {
    const { heartbeatMs, form } = this.#options;
    if (this.#refused) return undefined;
    const refusal = await this.#check();
    if (refusal !== undefined) return encodeItem({ data: refusal }, form);
    this.#next ??= this.#items.next();
    const beat = Promise.withResolvers<'beat'>();
    const timer = setTimeout(() => beat.resolve('beat'), heartbeatMs);
    const first = await Promise.race([this.#next, beat.promise]).finally(() => clearTimeout(timer));
    if (first === 'beat') return form === 'sse' ? ': still here\n\n' : '\n';
    this.#next = undefined;
    return first.done ? undefined : encodeItem(first.value, form);
  }

  async #check(): Promise<unknown> {
    if (performance.now() - this.#checkedAt < this.#options.heartbeatMs) return undefined;
    this.#checkedAt = performance.now();
    const refusal = await this.#options.refusal();
    this.#refused = refusal !== undefined;
    return refusal;
  }

  #end(why: StreamEnd): void {
    if (this.#ended) return;
    this.#ended = true;
    clearTimeout(this.#slow);
    this.#over.abort();
    // What it would have given is in the log of events, for whoever comes back.
    this.#next?.catch(() => {});
    void this.#items.return?.()?.catch?.(() => {});
    this.#options.onEnd(why);
  }
}

function encodeItem({ id, data }: StreamedItem, form: StreamOptions['form']): string {
  const json = JSON.stringify(data);
  if (form === 'ndjson') return `${json}\n`;
  return `${id === undefined ? '' : `id: ${id}\n`}data: ${json}\n\n`;
}
