/** From Node's requests and responses to those of the web, and back. */

import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';

/** How long a client that is refused in the middle of its request may go on, until it looks for the answer. */
const PATIENCE_MS = 5000;

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
  // Whoever does not read it to its end leaves it as it is: with it would go the connection, and the answer.
  const parts = () => ReadableStream.from(incoming.iterator({ destroyOnReturn: false }));
  const body = bodyless ? {} : { body: parts(), duplex: 'half' as const };
  return new Request(url, { method, headers, signal, ...body });
}

export async function send(response: Response, incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
  outgoing.writeHead(response.status, Object.fromEntries(response.headers));
  outgoing.flushHeaders();
  if (response.body) {
    const body = Readable.fromWeb(response.body as Parameters<typeof Readable.fromWeb>[0]);
    // A client that goes away in the middle has ended its stream.
    await pipeline(body, outgoing, { end: false }).catch(() => {});
  }
  await readOut(incoming);
  outgoing.end();
}

/** A connection that ends with something unread in it takes the answer along. */
async function readOut(incoming: IncomingMessage): Promise<void> {
  if (incoming.complete || incoming.destroyed) return;
  incoming.resume();
  const signal = AbortSignal.timeout(PATIENCE_MS);
  // Late, or gone: it is not waited for any longer.
  await Promise.race([once(incoming, 'end', { signal }), once(incoming, 'close', { signal })]).catch(() => {});
}
