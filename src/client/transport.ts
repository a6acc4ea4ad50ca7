/**
 * `WebTransport` sends requests and opens WebSockets, in Node and browsers. `MonitoredTransport` ends those whose server is silent.
 * Neither retries: subscribe.ts, remote-execution.ts and remote-turn.ts do.
 */

import { singleFlight } from '../lib/single-flight.ts';
import { HEARTBEAT_HEADER } from '../protocol/api/route.ts';
import { CellaError } from '../protocol/errors.ts';

export interface TransportRequest {
  readonly method: string;
  /** Includes the query. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array | AsyncIterable<Uint8Array> | undefined;
  /** See `RequestOptions`. */
  readonly answersAtOnce?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** The part of the WebSocket interface that browsers, Node and `ws` share and the client uses. */
export interface Socket {
  binaryType: string;
  /** Bytes not sent yet. */
  readonly bufferedAmount: number;
  send(data: string | Uint8Array<ArrayBuffer>): void;
  addEventListener(type: 'message', listener: (event: { readonly data: unknown }) => void): void;
  addEventListener(type: 'close', listener: (event: { readonly code: number }) => void): void;
  addEventListener(type: 'open' | 'error', listener: () => void): void;
  close(): void;
}

export interface Transport {
  /** An address or socket path, for messages. */
  readonly address: string;
  /** Whether the number of open requests is unlimited. */
  readonly allowsManyConnections: boolean;
  /** Rejects only with `serverUnreachable` or `ABORTED`: every HTTP status resolves. */
  request(request: TransportRequest): Promise<Response>;
  /** Undefined if a WebSocket cannot authenticate. */
  socket(path: string): Socket | undefined;
  close(): void;
}

/** The server did not answer, or the connection broke. `refused`: nothing was sent. */
export function serverUnreachable(where: string, cause: unknown): CellaError {
  if (cause instanceof CellaError) return cause;
  const { code, text } = reasonOf(cause);
  if (/CERT|ALTNAME|SIGNATURE/.test(String(code))) return untrusted(where, text, cause);
  const refused = code === 'ECONNREFUSED' || code === 'ENOENT' || code === 'ENOTFOUND' || code === 'EACCES';
  const happened = refused ? `No server answers at ${where}` : `The connection to ${where} broke`;
  return new CellaError('SERVER_UNREACHABLE', `${happened} (${text}).`, { cause, details: { where, refused } });
}

function untrusted(where: string, text: string, cause: unknown): CellaError {
  return new CellaError('SERVER_UNREACHABLE', `The certificate of ${where} is not trusted here (${text}).`, {
    cause,
    details: { where, refused: true },
    advice: 'Use the host name of the certificate. To trust your own certificate, set NODE_EXTRA_CA_CERTS=cert.pem.',
  });
}

/** `fetch` wraps the actual error in one or two others. */
function reasonOf(error: unknown): { readonly code?: unknown; readonly text: string } {
  if (!(error instanceof Error)) return { text: String(error) };
  if ('code' in error) return { code: error.code, text: String(error.code) };
  const [first] = error instanceof AggregateError ? error.errors : [error.cause];
  return first === undefined ? { text: error.message } : reasonOf(first);
}

export function aborted(): CellaError {
  return new CellaError('ABORTED', 'The caller stopped waiting.');
}

/** Browsers limit connections per server, and support neither headers on a WebSocket nor streaming request bodies. */
const inBrowser = typeof process === 'undefined' || process.versions?.node === undefined;

export class WebTransport implements Transport {
  readonly address: string;
  readonly allowsManyConnections = !inBrowser;
  readonly #url: URL;
  readonly #headers: Readonly<Record<string, string>>;

  /** A page that has logged in passes no `token`: the browser sends its cookie. */
  constructor(url: string, token?: string) {
    // Behind a proxy the server may be below a path, which must stay in front of the route.
    this.#url = new URL(url);
    this.#url.pathname = this.#url.pathname.replace(/\/*$/, '/');
    this.address = `${this.#url.origin}${this.#url.pathname.slice(0, -1)}`;
    this.#headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
  }

  async request({ method, path, headers, body, signal }: TransportRequest): Promise<Response> {
    try {
      return await fetch(this.#at(path), {
        method,
        headers: { ...headers, ...this.#headers },
        redirect: 'manual',
        ...(body === undefined ? {} : await bodyOf(body)),
        signal,
      });
    } catch (error) {
      throw signal?.aborted ? aborted() : serverUnreachable(this.address, error);
    }
  }

  socket(path: string): Socket | undefined {
    const url = this.#at(path);
    url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
    if (!inBrowser) return new WebSocket(url, { headers: this.#headers });
    return 'authorization' in this.#headers ? undefined : new WebSocket(url);
  }

  close(): void {}

  #at(path: string): URL {
    return new URL(`.${path}`, this.#url);
  }
}

async function bodyOf(body: NonNullable<TransportRequest['body']>): Promise<RequestInit> {
  if (typeof body === 'string') return { body };
  if (body instanceof Uint8Array) return { body: new Uint8Array(body) };
  if (!inBrowser) return { body: ReadableStream.from(body), duplex: 'half' };
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  for await (const chunk of body) chunks.push(new Uint8Array(chunk));
  return { body: new Blob(chunks) };
}

/** How often the server sends a heartbeat on open connections, unless it announces another interval. */
const EVERY_MS = 20_000;
export const IDLE_TIMEOUT_MS = 60_000;
/** How many heartbeats may be missed. */
const MOST_MISSED = 3;
/** How long the server may take to answer a health check. */
const LONGEST_ANSWER_MS = 15_000;

export interface Monitor {
  /** Data arrived. */
  alive(): void;
  /** The server announced that it sends heartbeats at this interval. */
  expectEvery(ms: number): void;
  stop(): void;
}

/** Wraps a transport, and ends its requests if the server is gone. */
export class MonitoredTransport implements Transport {
  readonly #inner: Transport;
  readonly #idleTimeoutMs: number;
  /** The last announced heartbeat interval. Without one, no heartbeats are expected. */
  #everyMs = Number.POSITIVE_INFINITY;
  /** All waiting requests share one health check. */
  readonly #isThere = singleFlight(() => this.#ask());

  constructor(inner: Transport, idleTimeoutMs: number) {
    this.#inner = inner;
    this.#idleTimeoutMs = idleTimeoutMs;
  }

  get address(): string {
    return this.#inner.address;
  }

  get allowsManyConnections(): boolean {
    return this.#inner.allowsManyConnections;
  }

  async request(wanted: TransportRequest): Promise<Response> {
    const gone = new AbortController();
    const listening = this.monitor((error) => gone.abort(error));
    if (wanted.answersAtOnce) listening.expectEvery(this.#everyMs);
    const signal = wanted.signal ? AbortSignal.any([wanted.signal, gone.signal]) : gone.signal;
    try {
      const response = await this.#inner.request({ ...wanted, signal });
      const { body, status, headers } = response;
      if (!body) return response;
      return new Response(this.#monitoredBody(body, headers.get(HEARTBEAT_HEADER), gone), { status, headers });
    } catch (error) {
      if (wanted.signal?.aborted) throw aborted();
      throw gone.signal.aborted ? gone.signal.reason : error;
    } finally {
      listening.stop();
    }
  }

  socket(path: string): Socket | undefined {
    return this.#inner.socket(path);
  }

  close(): void {
    this.#inner.close();
  }

  /** Monitors a WebSocket. A server sends something as soon as it opens, so a missing beginning is a missing heartbeat. */
  monitorSocket(onGone: (error: CellaError) => void): Monitor {
    return this.monitor(onGone, { openingMs: MOST_MISSED * Math.min(this.#everyMs, EVERY_MS) });
  }

  /**
   * Calls `onGone` once, if after a long silence the server does not answer or promised heartbeats are missing. `openingMs`:
   * how long it may take until the first data, even if the server answers.
   */
  monitor(onGone: (error: CellaError) => void, { openingMs = Number.POSITIVE_INFINITY } = {}): Monitor {
    let activeAt = performance.now();
    const idleTimeoutMs = this.#idleTimeoutMs;
    let announced = false;
    /** A connection with heartbeats is broken if it is silent for longer. */
    let mostIdleMs = openingMs;
    let over = false;
    let timer: ReturnType<typeof setTimeout>;
    const stop = () => {
      over = true;
      clearTimeout(timer);
    };
    const look = async (): Promise<void> => {
      const idleMs = performance.now() - activeAt;
      if (idleMs < idleTimeoutMs) return wait(idleTimeoutMs - idleMs);
      // This wait also lets data be read that arrived while this process was busy.
      const isThere = await this.#isThere();
      if (over) return;
      const wasActive = performance.now() - activeAt < idleMs;
      if (wasActive) return wait(idleTimeoutMs);
      if (isThere && idleMs < mostIdleMs) return wait(Math.min(idleTimeoutMs, mostIdleMs - idleMs));
      stop();
      onGone(this.#silentError(idleMs, isThere));
    };
    const wait = (ms: number): void => {
      timer = setTimeout(() => void look(), ms);
    };
    wait(idleTimeoutMs);
    return {
      alive: () => {
        activeAt = performance.now();
        if (!announced) mostIdleMs = Number.POSITIVE_INFINITY;
      },
      expectEvery: (ms) => {
        announced = true;
        this.#everyMs = ms;
        mostIdleMs = MOST_MISSED * ms;
      },
      stop,
    };
  }

  #silentError(idleMs: number, isThere: boolean): CellaError {
    const seconds = Math.round(idleMs / 1000);
    const message = isThere
      ? `A connection to ${this.address} has been silent for ${seconds} s: it is broken, although the server responds.`
      : `${this.address} has been silent for ${seconds} s and no longer responds.`;
    return new CellaError('SERVER_UNREACHABLE', message, {
      details: { where: this.address, refused: false, silent: true },
    });
  }

  async #ask(): Promise<boolean> {
    const signal = AbortSignal.timeout(Math.min(LONGEST_ANSWER_MS, this.#idleTimeoutMs));
    try {
      const answer = await this.#inner.request({ method: 'GET', path: '/health', headers: {}, signal });
      await answer.body?.cancel();
      return true;
    } catch {
      return false; // any error means no answer
    }
  }

  /** Monitors the body only during a read: without one, no data arrives. */
  #monitoredBody(
    body: ReadableStream<Uint8Array>,
    announced: string | null,
    gone: AbortController,
  ): ReadableStream<Uint8Array> {
    const reader = body.getReader();
    const everyMs = Number(announced);
    return new ReadableStream(
      {
        pull: async (controller) => {
          const listening = this.monitor((error) => gone.abort(error));
          if (everyMs > 0) listening.expectEvery(everyMs);
          try {
            const { value, done } = await reader.read();
            if (done) controller.close();
            else controller.enqueue(value);
          } catch (error) {
            throw gone.signal.aborted ? gone.signal.reason : error;
          } finally {
            listening.stop();
          }
        },
        cancel: (reason) => reader.cancel(reason),
      },
      { highWaterMark: 0 },
    );
  }
}
