/** Carries a client's requests and WebSockets. WebTransport works in Node and browsers. */

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
  const happened = refused ? `Nobody answers at ${where}` : `The connection to ${where} broke`;
  return new CellaError('SERVER_UNREACHABLE', `${happened} (${text}).`, { cause, details: { where, refused } });
}

function untrusted(where: string, text: string, cause: unknown): CellaError {
  return new CellaError('SERVER_UNREACHABLE', `The certificate of ${where} is not trusted here (${text}).`, {
    cause,
    details: { where, refused: true },
    advice:
      'Ask by the name that it is made for. NODE_EXTRA_CA_CERTS=cert.pem in the environment trusts one of your own.',
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
