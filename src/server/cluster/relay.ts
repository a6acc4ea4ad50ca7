/** One request, passed on to another server as it is, and its answer back: bodies are streams, whatever their size. */

import { type Agent, type IncomingMessage, type OutgoingHttpHeaders, request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import type { Readable } from 'node:stream';
import { CellaError } from '../../protocol/errors.ts';
import { toStream } from '../http/bytes.ts';

export interface Relayed {
  /** Of the other server. */
  readonly url: string;
  readonly method: string;
  /** With the query. */
  readonly path: string;
  readonly headers: OutgoingHttpHeaders;
  readonly body?: Readable | undefined;
  readonly agent: Agent;
  /** Ends it: the client has gone, or the other server has. */
  readonly signal: AbortSignal;
  /** Ends the client's connection where the answer breaks off. */
  readonly cut: () => void;
  /** Told when all of it is over, however it went. */
  readonly onEnd: () => void;
}

/** How long the other server may take to be reached at all. */
const CONNECT_MS = 3000;
const AGAIN_MS = 1000;

/** Of the connection, and not of what is sent on it. */
const OF_CONNECTION = new Set(
  'connection keep-alive proxy-connection proxy-authorization te trailer transfer-encoding upgrade expect host'.split(
    ' ',
  ),
);

export function relay({ url, method, path, headers, body, agent, signal, cut, onEnd }: Relayed): Promise<Response> {
  const { protocol, hostname, port } = new URL(url);
  const send = protocol === 'https:' ? requestHttps : requestHttp;
  const host = hostname.replace(/^\[|\]$/g, '');
  const { promise, resolve, reject } = Promise.withResolvers<Response>();
  const request = send({ host, port, method, path, headers, agent, signal });
  const late = setTimeout(() => request.destroy(new Error('it does not answer')), CONNECT_MS);
  const reached = () => clearTimeout(late);
  request.on('socket', (socket) => {
    if (socket.connecting) socket.once(protocol === 'https:' ? 'secureConnect' : 'connect', reached);
    else reached();
  });
  request.on('response', (answer) => resolve(toResponse(answer, method, cut)));
  // After the answer has begun, its stream tells.
  request.on('error', (cause) => reject(unanswered(cause)));
  request.on('close', () => {
    reached();
    onEnd();
  });
  if (body) body.pipe(request);
  else request.end();
  return promise;
}

/** Of a header that is a list. In one pass, however many blanks a client puts between them. */
export function wordsOf(list: string): string[] {
  const words = list.split(',').map((word) => word.trim());
  return words.filter((word) => word !== '');
}

/** Without what is for one connection alone. */
export function endToEnd(headers: IncomingMessage['headersDistinct']): Record<string, string[]> {
  const named = new Set((headers.connection ?? []).flatMap((value) => wordsOf(value.toLowerCase())));
  const passed = Object.entries(headers).filter(([name]) => !OF_CONNECTION.has(name) && !named.has(name));
  return Object.fromEntries(passed.map(([name, values]) => [name, values ?? []]));
}

export function unanswered(cause: unknown): CellaError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  const message = `The server that has this session did not answer (${reason}). What was asked of it may have been done.`;
  return new CellaError('SESSION_ELSEWHERE', message, { cause, details: { retryAfterMs: AGAIN_MS } });
}

function toResponse(answer: IncomingMessage, method: string, cut: () => void): Response {
  const { statusCode: status = 502 } = answer;
  const headers = new Headers();
  for (const [name, values] of Object.entries(endToEnd(answer.headersDistinct))) {
    for (const value of values) headers.append(name, value);
  }
  const empty = method === 'HEAD' || status === 204 || status === 304;
  if (!empty) return new Response(toStream(chunksOf(answer), cut), { status, headers });
  answer.resume();
  return new Response(null, { status, headers });
}

async function* chunksOf(answer: IncomingMessage): AsyncGenerator<Uint8Array> {
  for await (const chunk of answer) yield chunk;
}
