/** Which headers of a request and of its answer cross the proxy, and which requests cannot be told apart from two. */

import type { IncomingMessage } from 'node:http';

/** Of one connection each. */
const HOP_BY_HOP = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-authentication-info',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** Of the request as a whole; a client that calls one of them its connection's own wants it to be lost on the way. */
const NEVER_HOP = ['content-length', 'host', 'cookie', 'authorization'];

/** Why a request is not passed on: two readers could see two different ones in it. */
export function ambiguity(request: IncomingMessage): string | undefined {
  const { headersDistinct: all } = request;
  if ((all.host?.length ?? 0) > 1) return 'it has more than one Host header';
  if ((all['content-length']?.length ?? 0) > 1) return 'it has more than one Content-Length header';
  const coding = all['transfer-encoding'];
  if (coding && all['content-length']) return 'it has both a Content-Length and a Transfer-Encoding header';
  if (coding && coding.join().toLowerCase() !== 'chunked') return 'its Transfer-Encoding is not chunked';
  if (namedByConnection(request).some((name) => NEVER_HOP.includes(name))) return 'its Connection header names another';
  return undefined;
}

/** Pairs of name and value, as they came. */
export function passedOn(message: IncomingMessage, without: readonly string[] = []): string[] {
  const dropped = new Set([...HOP_BY_HOP, ...namedByConnection(message), ...without]);
  const kept: string[] = [];
  for (let at = 0; at + 1 < message.rawHeaders.length; at += 2) {
    const [name = '', value = ''] = message.rawHeaders.slice(at, at + 2);
    if (!dropped.has(name.toLowerCase())) kept.push(name, value);
  }
  return kept;
}

function namedByConnection({ headersDistinct }: IncomingMessage): string[] {
  const values = [...(headersDistinct.connection ?? []), ...(headersDistinct['proxy-connection'] ?? [])];
  return values.flatMap((value) => value.split(',')).map((name) => name.trim().toLowerCase());
}
