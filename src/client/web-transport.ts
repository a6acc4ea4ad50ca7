/** A server at an address, by `fetch` and `WebSocket`: in Node and in browsers. */

import { aborted, type Socket, type Transport, type TransportRequest, unreachable } from './transport.ts';

/** Browsers open few connections to one server, send no header with a WebSocket, and no body that is still being made. */
const inBrowser = typeof process === 'undefined' || process.versions?.node === undefined;

export class WebTransport implements Transport {
  readonly where: string;
  readonly wide = !inBrowser;
  readonly #url: URL;
  readonly #headers: Readonly<Record<string, string>>;

  /** `token` is left out by a page that has logged in: its cookie goes along. */
  constructor(url: string, token?: string) {
    // Behind a proxy the server may have a path of its own there; what is asked for is below it.
    this.#url = new URL(url);
    this.#url.pathname = this.#url.pathname.replace(/\/*$/, '/');
    this.where = `${this.#url.origin}${this.#url.pathname.slice(0, -1)}`;
    this.#headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
  }

  async request({ method, path, headers, body, signal }: TransportRequest): Promise<Response> {
    try {
      return await fetch(this.#at(path), {
        method,
        headers: { ...headers, ...this.#headers },
        redirect: 'manual',
        ...(body === undefined ? {} : await bodyOf(body)),
        ...(signal === undefined ? {} : { signal }),
      });
    } catch (error) {
      throw signal?.aborted ? aborted() : unreachable(this.where, error);
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
