/** From Node's requests and responses to those of the web, and back. */

import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';

/** `signal` is aborted when the client has gone before it had its answer. */
export function toRequest(incoming: IncomingMessage, signal: AbortSignal): Request {
  const headers = new Headers();
  for (const [name, values] of Object.entries(incoming.headersDistinct)) {
    for (const value of values ?? []) headers.append(name, value);
  }
  const method = incoming.method ?? 'GET';
  const bodyless = method === 'GET' || method === 'HEAD';
  // Only the path is the client's to say; what it calls this machine is a header, and checked as one.
  const url = new URL(`http://127.0.0.1${incoming.url?.startsWith('/') ? incoming.url : '/'}`);
  const body = bodyless
    ? {}
    : { body: Readable.toWeb(incoming) as ReadableStream<Uint8Array>, duplex: 'half' as const };
  return new Request(url, { method, headers, signal, ...body });
}

export async function send(response: Response, outgoing: ServerResponse): Promise<void> {
  outgoing.writeHead(response.status, Object.fromEntries(response.headers));
  if (!response.body) {
    outgoing.end();
    return;
  }
  outgoing.flushHeaders();
  // A client that goes away in the middle has ended its stream.
  await pipeline(Readable.fromWeb(response.body as Parameters<typeof Readable.fromWeb>[0]), outgoing).catch(() => {});
}
