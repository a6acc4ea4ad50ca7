/** Between Node's HTTP messages and the Request, Response and ReadableStream of the web. */

import type { IncomingMessage } from 'node:http';

export function toRequest(incoming: IncomingMessage): Request {
  const headers = new Headers();
  for (const [name, values] of Object.entries(incoming.headersDistinct)) {
    // What HTTP says of the connection is none of the app's business, and some of it no Request takes.
    for (const value of values ?? []) if (!name.startsWith(':')) headers.append(name, value);
  }
  // Only the path is the client's to say; what it calls this machine is a header, and checked as one.
  const path = incoming.url?.startsWith('/') ? incoming.url : '/';
  return new Request(new URL(path.replace(/^\/+/, '/'), 'http://localhost'), { headers });
}
