/** Streams responses as JSON lines or server-sent events, as fast as the client reads and as long as it is authorized. */

import type { UnderlyingSource } from 'node:stream/web';
import { AsyncQueue } from '../../lib/queues.ts';
import { HEARTBEAT_HEADER } from '../../protocol/api/route.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { DepsLine } from '../../protocol/namespace-models.ts';
import type { StreamItem } from '../../protocol/session-events.ts';
import type { Principal } from '../access/authorization.ts';
import { drainingError } from '../server-control.ts';
import type { ServerSession } from '../sessions/server-session.ts';
import type { UnreadData } from '../unread-limit.ts';
import { errorBody, toCellaError } from './error-response.ts';
import type { Reauthorize } from './router.ts';
import { abortConnection, type RequestContext, type ServerContext, type StreamLimits } from './server-context.ts';

interface ResponseOptions {
  readonly form: Exclude<StreamFormat, 'json'>;
  /** Its slot in the limit on followers. Disposed of when the stream ends. */
  readonly place: Disposable;
  /** If this is a promise, nothing is sent before it resolves. */
  readonly after: number | Promise<number>;
  /** Only this execution's events, until it ends. */
  readonly execution?: string | undefined;
  /** Only this turn's events, until it ends. */
  readonly turn?: string | undefined;
  readonly reauthorize: Reauthorize;
  readonly context: RequestContext;
  readonly onGone?: () => void;
}

export function streamEvents(service: ServerContext, session: ServerSession, options: ResponseOptions): Response {
  const { after, execution, turn, context } = options;
  const place = new DisposableStack();
  place.use(options.place);
  // What is sent and not read is counted with the response.
  const memory = place.use(service.unread.open(context.env.userId ?? ''));
  const source = (signal: AbortSignal) => eventsFrom(session, { after, execution, turn, memory, signal });
  return streamUntilGone(service, source, { ...options, place });
}

/** Streams the source for as long as the client is authorized. The source must end when its signal aborts. */
export function streamUntilGone(
  { metrics, limits, closing }: ServerContext,
  source: (signal: AbortSignal) => AsyncIterator<object>,
  { form, place, reauthorize, context, onGone }: Omit<ResponseOptions, 'after' | 'execution' | 'turn'>,
): Response {
  return streamResponse((signal) => toStreamed(source(AbortSignal.any([signal, closing])), closing), {
    form,
    ...limits,
    cut: () => abortConnection(context.env),
    refusal: async () => {
      const refusal = await whyForbidden(reauthorize);
      return refusal && { type: 'error', ...errorBody(refusal) };
    },
    onEnd: (why) => {
      place[Symbol.dispose]();
      if (why === 'slow' || why === 'refused') metrics.dropped(why);
      if (why === 'gone') onGone?.();
    },
  });
}

interface ReadOptions extends Pick<ResponseOptions, 'after' | 'execution' | 'turn'> {
  readonly memory: UnreadData;
  readonly signal: AbortSignal;
}

function eventsFrom(session: ServerSession, { after, ...filter }: ReadOptions): AsyncIterator<StreamItem> {
  let events: AsyncIterator<StreamItem> | undefined;
  return {
    next: async () => {
      events ??= session.events({ after: await after, ...filter })[Symbol.asyncIterator]();
      return await events.next();
    },
    return: async () => (await events?.return?.()) ?? { done: true, value: undefined },
  };
}

/**
 * The last line of a stream that ends early is the error, so that the client does not take it for complete. An iterator and
 * not a generator, which would keep the last event in memory while it waits for the next.
 */
function toStreamed(items: AsyncIterator<object>, closing: AbortSignal): AsyncIterator<StreamedItem> {
  let isOver = false;
  const last = (error: CellaError): IteratorResult<StreamedItem> => {
    isOver = true;
    return { value: { data: { type: 'error', ...errorBody(error) } } };
  };
  return {
    next: async () => {
      if (isOver) return { done: true, value: undefined };
      try {
        const { done, value } = await items.next();
        if (!done) return { value: toItem(value) };
        isOver = true;
        if (!closing.aborted) return { done, value: undefined };
      } catch (error) {
        if (!closing.aborted) return last(toCellaError(error, '-'));
      }
      return last(drainingError('Continue with the last number that you have.'));
    },
    return: async () => {
      isOver = true;
      await items.return?.();
      return { done: true, value: undefined };
    },
  };
}

function toItem(event: object): StreamedItem {
  return 'seq' in event && typeof event.seq === 'number' ? { id: event.seq, data: event } : { data: event };
}

/** Why the client is no longer authorized. Undefined if it is. */
export async function whyForbidden(reauthorize: Reauthorize): Promise<CellaError | undefined> {
  try {
    await reauthorize();
    return undefined;
  } catch (error) {
    // A storage failure does not mean that the client lost its right.
    const isRefusal = error instanceof CellaError && ['UNAUTHENTICATED', 'FORBIDDEN', 'NOT_FOUND'].includes(error.code);
    return isRefusal ? error : undefined;
  }
}

type DepsChange = Extract<DepsLine, { type: 'result' }>['result'];
/** `signal` is aborted when the client disconnects. */
export type DepsWork = (options: { signal: AbortSignal; onProgress?: (text: string) => void }) => Promise<DepsChange>;

/** Streams progress to clients that accept JSON lines. Others get one JSON object. */
export async function withProgress(
  { limits, followers }: Pick<ServerContext, 'limits' | 'followers'>,
  { context, principal }: { readonly context: RequestContext; readonly principal: Principal },
  work: DepsWork,
): Promise<DepsChange | Response> {
  const { signal } = context.req.raw;
  const form = negotiateFormat(context.req.header('accept'));
  if (form === 'json') return await work({ signal });
  const place = followers.enter(principal, form);
  return streamResponse((gone) => progressLines(work, AbortSignal.any([gone, signal])), {
    form,
    ...limits,
    refusal: async () => undefined,
    onEnd: () => place[Symbol.dispose](),
    cut: () => abortConnection(context.env),
  });
}

/** A slow client gets only the newest lines. */
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

interface GuardStreamOptions extends Pick<StreamLimits, 'slowClientTimeoutMs' | 'heartbeatMs'> {
  readonly reauthorize: Reauthorize;
  /** Its slot in the limit on followers. Disposed of when the stream ends. */
  readonly place: Disposable;
  /** Ends the connection of a client that does not read. */
  readonly cut: () => void;
}

/** Adds heartbeat comments to server-sent events from another source. */
export function guardStream(response: Response, options: GuardStreamOptions): Response {
  const { body, status, headers } = response;
  if (!body) return response;
  const guarded = new Headers(headers);
  guarded.set(HEARTBEAT_HEADER, String(options.heartbeatMs));
  return new Response(guardEvents(body, options), { status, headers: guarded });
}

const NEWLINE = 0x0a;

function guardEvents(body: ReadableStream<Uint8Array>, options: GuardStreamOptions): ReadableStream<Uint8Array> {
  const { reauthorize, place, cut, slowClientTimeoutMs, heartbeatMs } = options;
  const reader = body.getReader();
  const read = () => reader.read().catch(() => undefined); // the client sees the cut stream
  let reading: ReturnType<typeof read> | undefined;
  /** The last two bytes, so that no comment lands in the middle of an event. */
  let tail = [NEWLINE, NEWLINE];
  let slow: NodeJS.Timeout | undefined;
  const end = async () => {
    clearTimeout(slow);
    clearInterval(checks);
    place[Symbol.dispose]();
    await reader.cancel().catch(() => {}); // the stream has already failed
  };
  const checks = setInterval(async () => {
    if (await whyForbidden(reauthorize)) await end();
  }, heartbeatMs).unref();
  const pull = async (controller: ReadableStreamDefaultController<Uint8Array>) => {
    clearTimeout(slow);
    reading ??= read();
    const next = await beatOr(reading, heartbeatMs, () => tail.every((byte) => byte === NEWLINE));
    if (next === 'beat') controller.enqueue(encoder.encode(SSE_HEARTBEAT));
    else {
      reading = undefined;
      if (!next || next.done) {
        await end();
        return next ? controller.close() : cut();
      }
      tail = [...tail, ...next.value.subarray(-2)].slice(-2);
      controller.enqueue(next.value);
    }
    slow = setTimeout(() => void end().then(cut), slowClientTimeoutMs).unref();
  };
  return new ReadableStream({ pull, cancel: end }, { highWaterMark: 0 });
}

type StreamFormat = 'json' | 'ndjson' | 'sse';

const NDJSON = 'application/x-ndjson';
export const SSE = 'text/event-stream';

/** The format that the client prefers. Default: JSON. */
export function negotiateFormat(accept: string | undefined): StreamFormat {
  const wanted = (accept ?? '').toLowerCase();
  if (wanted.includes(SSE)) return 'sse';
  if (wanted.includes(NDJSON) || wanted.includes('application/jsonl')) return 'ndjson';
  return 'json';
}

/** One event on the wire. A client passes `id` to resume after it. */
interface StreamedItem {
  readonly id?: number;
  readonly data: unknown;
}

interface StreamOptions {
  readonly form: Exclude<StreamFormat, 'json'>;
  /** How long a client may take to read sent data. */
  readonly slowClientTimeoutMs: number;
  /** Sends a heartbeat after this long without an event, so that no proxy takes the connection for dead. */
  readonly heartbeatMs: number;
  /** The last line for a client that is no longer authorized. Checked at the heartbeat interval. */
  readonly refusal: () => Promise<unknown>;
  readonly onEnd: (why: StreamEnd) => void;
  /** Ends the connection of a client that does not read. */
  readonly cut: () => void;
}

type StreamEnd = 'complete' | 'gone' | 'slow' | 'refused';

const SSE_HEARTBEAT = ': still here\n\n';
const encoder = new TextEncoder();

/** Yields events until there are no more, or until the signal aborts because the client has gone. */
type StreamedSource = (signal: AbortSignal) => AsyncIterator<StreamedItem>;

/** Takes an event from the source only when the client has room for it. */
function streamResponse(items: StreamedSource, options: StreamOptions): Response {
  const { form } = options;
  const body = new ReadableStream<Uint8Array>(new StreamPump(items, options), { highWaterMark: 1 });
  const headers = {
    'content-type': form === 'sse' ? `${SSE}; charset=utf-8` : NDJSON,
    // Proxies must not buffer the stream.
    'x-accel-buffering': 'no',
    [HEARTBEAT_HEADER]: String(options.heartbeatMs),
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
    this.#items = items(this.#over.signal);
    this.#options = options;
  }

  /** Sends the response head before the first event. */
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
    }, this.#options.slowClientTimeoutMs);
  }

  cancel(): void {
    this.#end('gone');
  }

  /** The next event or a heartbeat; undefined at the end. */
  async #text(): Promise<string | undefined> {
    const { heartbeatMs, form } = this.#options;
    if (this.#refused) return undefined;
    const refusal = await this.#check();
    if (refusal !== undefined) return encodeItem({ data: refusal }, form);
    this.#next ??= this.#items.next();
    const first = await beatOr(this.#next, heartbeatMs);
    if (first === 'beat') return form === 'sse' ? SSE_HEARTBEAT : '\n';
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
    // A client that resumes gets this event from the log.
    this.#next?.catch(() => {});
    void this.#items.return?.()?.catch?.(() => {});
    this.#options.onEnd(why);
  }
}

/** The next item, or `beat` if a heartbeat is due and there is `room` for it. */
async function beatOr<T>(next: Promise<T>, everyMs: number, room = () => true): Promise<T | 'beat'> {
  const beat = Promise.withResolvers<'beat'>();
  const timer = setInterval(() => room() && beat.resolve('beat'), everyMs);
  return await Promise.race([next, beat.promise]).finally(() => clearInterval(timer));
}

function encodeItem({ id, data }: StreamedItem, form: StreamOptions['form']): string {
  const json = JSON.stringify(data);
  if (form === 'ndjson') return `${json}\n`;
  return `${id === undefined ? '' : `id: ${id}\n`}data: ${json}\n\n`;
}
