/** Passes a request or a WebSocket on to the server that owns the session, and its answer back. */

import { type Agent, type IncomingMessage, type OutgoingHttpHeaders, request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import type { Readable } from 'node:stream';
import { WebSocket } from 'ws';
import { onAbort } from '../../lib/abort.ts';
import { toStream } from '../../lib/node-web.ts';
import { CloseCode } from '../../protocol/api/socket-frames.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { ByteReservation } from '../request-limits.ts';

interface ProxiedRequest {
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

export function proxyRequest({
  url,
  method,
  path,
  headers,
  body,
  agent,
  signal,
  cut,
  onEnd,
}: ProxiedRequest): Promise<Response> {
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
export function listItems(list: string): string[] {
  const words = list.split(',').map((word) => word.trim());
  return words.filter((word) => word !== '');
}

/** Without what is for one connection alone. */
export function endToEndHeaders(headers: IncomingMessage['headersDistinct']): Record<string, string[]> {
  const named = new Set((headers.connection ?? []).flatMap((value) => listItems(value.toLowerCase())));
  const passed = Object.entries(headers).filter(([name]) => !OF_CONNECTION.has(name) && !named.has(name));
  return Object.fromEntries(passed.map(([name, values]) => [name, values ?? []]));
}

function unanswered(cause: unknown): CellaError {
  const reason = cause instanceof Error ? cause.message : String(cause);
  const message = `The server that has this session did not answer (${reason}). What was asked of it may have been done.`;
  return new CellaError('SESSION_ELSEWHERE', message, { cause, details: { retryAfterMs: AGAIN_MS } });
}

function toResponse(answer: IncomingMessage, method: string, cut: () => void): Response {
  const { statusCode: status = 502 } = answer;
  const headers = new Headers();
  for (const [name, values] of Object.entries(endToEndHeaders(answer.headersDistinct))) {
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

interface SocketTarget {
  /** Of the other server. */
  readonly url: string;
  readonly path: string;
  readonly headers: OutgoingHttpHeaders;
  readonly protocols: readonly string[];
  /** The other server has gone. */
  readonly gone: AbortSignal;
}

export interface ProxySocketOptions {
  /** How long a side may take to read what it was sent. */
  readonly patienceMs: number;
  /** How much may wait for a side. */
  readonly bufferBytes: number;
  /** For what the client has sent, until the other server takes it. */
  readonly hold: ByteReservation;
  /** The other server has gone. */
  readonly gone: AbortSignal;
  /** This server ends. */
  readonly ending: AbortSignal;
}

/** A kernel may have to be woken first. */
const HANDSHAKE_MS = 60_000;
const CLOSING_MS = 2000;
const MOST_REFUSAL_BYTES = 64 * 1024;

/** The other server's end of it, which is not read before somebody takes it; or why there is none. */
export async function openSocket({ gone, ...target }: SocketTarget): Promise<WebSocket | Response> {
  const { promise, resolve, reject } = Promise.withResolvers<WebSocket | Response>();
  const socket = connect(target);
  socket.once('open', () => {
    socket.pause();
    resolve(socket);
  });
  socket.once('unexpected-response', async (_request, answer) => {
    await refusalOf(answer).then(resolve, reject);
    // It would stay in its handshake for ever.
    socket.terminate();
  });
  socket.on('error', (cause) => reject(unanswered(cause)));
  const leaving = onAbort(gone, () => socket.terminate());
  socket.once('close', () => leaving[Symbol.dispose]());
  return await promise;
}

function connect({ url, path, headers, protocols }: Omit<SocketTarget, 'gone'>): WebSocket {
  const options = { headers, perMessageDeflate: false, autoPong: false, handshakeTimeout: HANDSHAKE_MS };
  try {
    return new WebSocket(`${url.replace(/^http/, 'ws').replace(/\/$/, '')}${path}`, [...protocols], options);
  } catch (cause) {
    throw new CellaError('INVALID_REQUEST', 'Sec-WebSocket-Protocol: must be different words.', { cause });
  }
}

export function proxySocket(client: WebSocket, owner: WebSocket, options: ProxySocketOptions): void {
  const { gone, ending, hold } = options;
  const moved = () => endBoth(client, owner, CloseCode.moved, 'the session has moved');
  const stopped = () => endBoth(client, owner, CloseCode.stopping, 'the server is ending');
  const slow = () => endBoth(client, owner, CloseCode.slow, 'too slow');
  const keep = (waiting: number) => {
    try {
      hold.resize(waiting);
    } catch {
      endBoth(client, owner, CloseCode.tooMuch, 'messages that nobody takes hold too much');
    }
  };
  pipeFrames(client, owner, { ...options, slow, keep });
  pipeFrames(owner, client, { ...options, slow, keep: () => {} });
  owner.once('close', (code, reason) => {
    if (isSendable(code)) close(client, code, reason.toString());
    else close(client, CloseCode.moved, 'the session has moved');
  });
  client.once('close', (code, reason) => {
    hold[Symbol.dispose]();
    for (const listener of aborting) listener[Symbol.dispose]();
    if (isSendable(code)) close(owner, code, reason.toString());
    else owner.terminate();
  });
  const aborting = [onAbort(gone, moved), onAbort(ending, stopped)];
  owner.resume();
}

interface PipeOptions extends Pick<ProxySocketOptions, 'patienceMs' | 'bufferBytes'> {
  /** Told that a side does not read. */
  readonly slow: () => void;
  /** Told how many bytes wait for it. */
  readonly keep: (waiting: number) => void;
}

function pipeFrames(from: WebSocket, to: WebSocket, { patienceMs, bufferBytes, slow, keep }: PipeOptions): void {
  let patience: NodeJS.Timeout | undefined;
  const taken = () => {
    if (to.readyState === WebSocket.OPEN) keep(to.bufferedAmount);
    if (!from.isPaused || to.bufferedAmount > bufferBytes) return;
    clearTimeout(patience);
    from.resume();
  };
  const passed = () => {
    if (from.isPaused || to.bufferedAmount <= bufferBytes) return;
    from.pause();
    patience = setTimeout(slow, patienceMs);
  };
  const put = (send: (done: () => void) => void) => {
    if (to.readyState !== WebSocket.OPEN) return;
    send(taken);
    passed();
    keep(to.bufferedAmount);
  };
  from.on('message', (data, binary) => put((done) => to.send(data, { binary }, done)));
  from.on('ping', (data) => put((done) => to.ping(data, undefined, done)));
  from.on('pong', (data) => put((done) => to.pong(data, undefined, done)));
  from.on('error', () => {}); // closing follows
  from.once('close', () => clearTimeout(patience));
  to.once('close', () => clearTimeout(patience));
}

function endBoth(client: WebSocket, owner: WebSocket, code: number, reason: string): void {
  close(client, code, reason);
  owner.terminate();
}

function close(socket: WebSocket, code: number, reason: string): void {
  // One that is paused would never see that the other side agrees.
  socket.resume();
  socket.close(code, reason);
  setTimeout(() => socket.terminate(), CLOSING_MS).unref();
}

/** Some codes only say how a connection ended, and are never sent. */
function isSendable(code: number): boolean {
  return (code >= 3000 && code <= 4999) || (code >= 1000 && code <= 1014 && ![1004, 1005, 1006].includes(code));
}

async function refusalOf(answer: IncomingMessage): Promise<Response> {
  const parts: Buffer[] = [];
  let bytes = 0;
  for await (const part of answer) {
    bytes += part.length;
    if (bytes <= MOST_REFUSAL_BYTES) parts.push(part);
  }
  const { statusCode: status = 502, headers } = answer;
  // What agrees to nothing cannot say that it switches to something.
  if (status < 400) throw unanswered(new Error(`it answered with ${status}`));
  const type = { 'content-type': headers['content-type'] ?? 'application/json' };
  const after = headers['retry-after'] === undefined ? {} : { 'retry-after': headers['retry-after'] };
  return new Response(Buffer.concat(parts), { status, headers: { ...type, ...after } });
}
