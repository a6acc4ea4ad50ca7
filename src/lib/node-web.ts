/** Converts Node's HTTP messages to web Requests and ReadableStreams. */

import type { IncomingMessage } from 'node:http';

/** A request to upgrade, which has no body. */
export function toRequest(incoming: IncomingMessage): Request {
  return new Request(urlOf(incoming), { headers: headersOf(incoming) });
}

/** A request with its body. `signal` aborts if the client disconnects before it has its response. */
export function toRequestWithBody(incoming: IncomingMessage, signal: AbortSignal): Request {
  const { method = 'GET' } = incoming;
  const init = { method, headers: headersOf(incoming), signal };
  if (method === 'GET' || method === 'HEAD') return new Request(urlOf(incoming), init);
  // A reader that stops early must not destroy the request, because that would close the connection and lose the response.
  const body = ReadableStream.from(incoming.iterator({ destroyOnReturn: false }));
  return new Request(urlOf(incoming), { ...init, body, duplex: 'half' });
}

/** Only the path comes from the client's URL. The host is a header, and is checked as one. */
function urlOf({ url }: IncomingMessage): URL {
  const path = url?.startsWith('/') ? url : '/';
  return new URL(path.replace(/^\/+/, '/'), 'http://localhost');
}

function headersOf({ headersDistinct }: IncomingMessage): Headers {
  const headers = new Headers();
  for (const [name, values] of Object.entries(headersDistinct)) {
    // HTTP/2 pseudo-headers describe the connection; a Request does not accept them.
    for (const value of values ?? []) if (!name.startsWith(':')) headers.append(name, value);
  }
  return headers;
}

/** Reads a chunk only when the consumer asks for one. Calls `cut` if reading fails. */
export function toStream(chunks: AsyncGenerator<Uint8Array>, cut: () => void): ReadableStream<Uint8Array> {
  let begun = false;
  return new ReadableStream({
    async pull(controller) {
      begun = true;
      const next = await chunks.next().catch(() => undefined); // the client sees the cut stream
      if (!next) cut();
      else if (next.done) controller.close();
      else controller.enqueue(next.value);
    },
    async cancel() {
      // `return` runs no cleanup in a generator that has not started.
      if (!begun) await chunks.next().catch(() => {}); // the consumer is gone
      await chunks.return(undefined);
    },
  });
}
