/** Between Node's HTTP messages and the Request, Response and ReadableStream of the web. */

import type { IncomingMessage } from 'node:http';

/** A request to upgrade, which has no body. */
export function toRequest(incoming: IncomingMessage): Request {
  const headers = new Headers();
  for (const [name, values] of Object.entries(incoming.headersDistinct)) {
    // Pseudo-headers of HTTP/2 describe the connection; a Request does not take them.
    for (const value of values ?? []) if (!name.startsWith(':')) headers.append(name, value);
  }
  // Only the path comes from the client's URL; the host is a header, and is checked as one.
  const path = incoming.url?.startsWith('/') ? incoming.url : '/';
  return new Request(new URL(path.replace(/^\/+/, '/'), 'http://localhost'), { headers });
}

/** A chunk is read when the consumer asks for one. `cut` is called if reading fails. */
export function toStream(chunks: AsyncGenerator<Uint8Array>, cut: () => void): ReadableStream<Uint8Array> {
  return new ReadableStream({
    async pull(controller) {
      const next = await chunks.next().catch(() => undefined); // the client sees that it is cut
      if (!next) cut();
      else if (next.done) controller.close();
      else controller.enqueue(next.value);
    },
    cancel: async () => void (await chunks.return(undefined)),
  });
}
