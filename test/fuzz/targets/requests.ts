/** Requests and answers of HTTP in one piece, as they are kept in the corpus. */

import { EventEmitter } from 'node:events';
import type { IncomingMessage } from 'node:http';

/** As Node's own parser gives it, from what could be a request. */
export function requestOf(text: string): IncomingMessage {
  const [first = '', ...lines] = text.split('\r\n');
  const rawHeaders: string[] = [];
  const headersDistinct: Record<string, string[]> = {};
  for (const line of lines) {
    const colon = line.indexOf(':');
    if (colon <= 0) continue;
    const [name, value] = [line.slice(0, colon), line.slice(colon + 1).trim()];
    rawHeaders.push(name, value);
    const all = headersDistinct[name.toLowerCase()];
    if (Array.isArray(all)) all.push(value);
    else
      Object.defineProperty(headersDistinct, name.toLowerCase(), {
        value: [value],
        enumerable: true,
        configurable: true,
      });
  }
  const headers = Object.fromEntries(Object.entries(headersDistinct).map(([name, all]) => [name, all[0]]));
  const [method, url] = first.split(' ');
  return { method, url: url ?? first, rawHeaders, headersDistinct, headers } as unknown as IncomingMessage;
}

/** The head, and what follows the first empty line. */
export function headAndBody(input: Buffer): { head: string; body: Buffer } {
  const end = input.indexOf('\r\n\r\n');
  if (end < 0) return { head: input.toString('latin1'), body: input.subarray(input.length) };
  return { head: input.toString('latin1', 0, end), body: input.subarray(end + 4) };
}

/** The same with a body, which comes in two pieces once somebody listens. */
export function requestWithBody(head: string, body: Buffer): IncomingMessage {
  const request = Object.assign(new EventEmitter(), requestOf(head), { destroyed: false });
  request.on('newListener', (name) => {
    if (name !== 'error') return;
    queueMicrotask(() => {
      const half = body.length >> 1;
      for (const piece of [body.subarray(0, half), body.subarray(half)])
        if (piece.length > 0) request.emit('data', piece);
      request.emit('end');
      request.emit('close');
    });
  });
  return request as unknown as IncomingMessage;
}
