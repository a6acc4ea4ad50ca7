/** Answers that go on: events as lines of JSON or as server-sent events, one after the other, as fast as the client reads. */

import type { UnderlyingSource } from 'node:stream/web';

export type StreamForm = 'json' | 'ndjson' | 'sse';

export const NDJSON = 'application/x-ndjson';
export const SSE = 'text/event-stream';

/** What the client would rather have; JSON where it does not say. */
export function formOf(accept: string | undefined): StreamForm {
  const wanted = (accept ?? '').toLowerCase();
  if (wanted.includes(SSE)) return 'sse';
  if (wanted.includes(NDJSON) || wanted.includes('application/jsonl')) return 'ndjson';
  return 'json';
}

/** One event on the wire; `id` is what a client names to go on from it. */
export interface Item {
  readonly id?: number;
  readonly data: unknown;
}

export interface StreamOptions {
  readonly form: Exclude<StreamForm, 'json'>;
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

export type StreamEnd = 'complete' | 'gone' | 'slow' | 'refused';

const encoder = new TextEncoder();

/** Gives events until there are no more, or the signal says that nobody is there to read them. */
export type Source = (signal: AbortSignal) => AsyncIterable<Item>;

/** The stream pulls: an event is taken only when the client has room for it. */
export function streamResponse(items: Source, options: StreamOptions): Response {
  const { form } = options;
  const body = new ReadableStream<Uint8Array>(new Pump(items, options), { highWaterMark: 1 });
  const headers = {
    'content-type': form === 'sse' ? `${SSE}; charset=utf-8` : NDJSON,
    // Proxies must not wait for more.
    'x-accel-buffering': 'no',
  };
  return new Response(body, { headers });
}

class Pump implements UnderlyingSource<Uint8Array> {
  readonly #items: AsyncIterator<Item>;
  readonly #over = new AbortController();
  readonly #options: StreamOptions;
  #next: Promise<IteratorResult<Item>> | undefined;
  #slow: NodeJS.Timeout | undefined;
  #checkedAt = performance.now();
  #refused = false;
  #ended = false;

  constructor(items: Source, options: StreamOptions) {
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
    if (refusal !== undefined) return write({ data: refusal }, form);
    this.#next ??= this.#items.next();
    const beat = Promise.withResolvers<'beat'>();
    const timer = setTimeout(() => beat.resolve('beat'), heartbeatMs);
    const first = await Promise.race([this.#next, beat.promise]).finally(() => clearTimeout(timer));
    if (first === 'beat') return form === 'sse' ? ': still here\n\n' : '\n';
    this.#next = undefined;
    return first.done ? undefined : write(first.value, form);
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

function write({ id, data }: Item, form: StreamOptions['form']): string {
  const json = JSON.stringify(data);
  if (form === 'ndjson') return `${json}\n`;
  return `${id === undefined ? '' : `id: ${id}\n`}data: ${json}\n\n`;
}
