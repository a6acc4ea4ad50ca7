/** Forwards a request or a WebSocket to the server that owns the session, and returns its response. */

import { type Agent, type IncomingMessage, type OutgoingHttpHeaders, request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import type { Readable } from 'node:stream';
import { WebSocket } from 'ws';
import { onAbort } from '../../lib/abort.ts';
import { toStream } from '../../lib/node-web.ts';
import { messageOf } from '../../lib/values.ts';
import { CloseCode } from '../../protocol/api/socket-frames.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { CountUnread, ReportRefusal } from '../http/server-context.ts';
import { closeSocket, FRAME_BYTES } from '../http/socket-connection.ts';
import type { ByteReservation } from '../request-limits.ts';

interface ProxiedRequest {
  /** The address of the other server. */
  readonly url: string;
  readonly method: string;
  /** Includes the query. */
  readonly path: string;
  readonly headers: OutgoingHttpHeaders;
  readonly body?: Readable | undefined;
  readonly agent: Agent;
  /** Aborts when the client has disconnected or the other server is gone. */
  readonly signal: AbortSignal;
  /** Closes the client's connection if the response breaks off. */
  readonly cut: () => void;
  /** Called when the exchange is over, with or without an error. */
  readonly onEnd: () => void;
}

/** How long connecting to the other server may take. */
const CONNECT_MS = 3000;
const AGAIN_MS = 1000;

/** Headers of the connection, not of the forwarded message. */
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
  // After the response has begun, its stream reports errors.
  request.on('error', (cause) => reject(unanswered(cause)));
  request.on('close', () => {
    reached();
    onEnd();
  });
  if (body) body.pipe(request);
  else request.end();
  return promise;
}

/** Splits a list header in one pass, even if a client sends many blanks. */
export function listItems(list: string): string[] {
  const words = list.split(',').map((word) => word.trim());
  return words.filter((word) => word !== '');
}

/** Removes headers that apply to one connection only. */
export function endToEndHeaders(headers: IncomingMessage['headersDistinct']): Record<string, string[]> {
  const named = new Set((headers.connection ?? []).flatMap((value) => listItems(value.toLowerCase())));
  const passed = Object.entries(headers).filter(([name]) => !OF_CONNECTION.has(name) && !named.has(name));
  return Object.fromEntries(passed.map(([name, values]) => [name, values ?? []]));
}

function unanswered(cause: unknown): CellaError {
  const reason = messageOf(cause);
  const message = `The server that has this session did not answer (${reason}). It may have done what was requested.`;
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
  /** The address of the other server. */
  readonly url: string;
  readonly path: string;
  readonly headers: OutgoingHttpHeaders;
  readonly protocols: readonly string[];
  /** Aborts when the other server is gone. */
  readonly gone: AbortSignal;
}

export interface ProxySocketOptions {
  /** How long a side may take to read the data sent to it. */
  readonly slowClientTimeoutMs: number;
  /** How much data may wait for a side. */
  readonly bufferBytes: number;
  /** Reserves memory for the client's data until the other server takes it. */
  readonly hold: ByteReservation;
  /** Called if the client sends more than that. */
  readonly onRefused: ReportRefusal;
  /** Whether the client can reconnect and loses nothing. */
  readonly canResume: boolean;
  /** Counts the other server's data until the client reads it. */
  readonly unread: CountUnread;
  /** Aborts when the other server is gone. */
  readonly gone: AbortSignal;
  /** Aborts when this server shuts down. */
  readonly closing: AbortSignal;
}

/** The other server may have to resume a kernel first. */
const HANDSHAKE_MS = 60_000;
const CLOSING_MS = 2000;
const MOST_REFUSAL_BYTES = 64 * 1024;

/** Opens a socket to the other server, which is not read before it is used; or returns its refusal. */
export async function openSocket({ gone, ...target }: SocketTarget): Promise<WebSocket | Response> {
  const { promise, resolve, reject } = Promise.withResolvers<WebSocket | Response>();
  const socket = connect(target);
  socket.once('open', () => {
    socket.pause();
    resolve(socket);
  });
  socket.once('unexpected-response', async (_request, answer) => {
    await refusalOf(answer).then(resolve, reject);
    // Otherwise it would stay in its handshake forever.
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
    throw new CellaError('INVALID_REQUEST', 'Sec-WebSocket-Protocol: must be a list of different tokens.', { cause });
  }
}

export function proxySocket(client: WebSocket, owner: WebSocket, options: ProxySocketOptions): void {
  const { gone, closing, hold, onRefused } = options;
  const cut = () => endBoth(client, owner, CloseCode.slow, 'unread data uses too much memory');
  const unread = options.unread(options.canResume ? cut : undefined);
  const moved = () => endBoth(client, owner, CloseCode.moved, 'the session has moved');
  const stopped = () => endBoth(client, owner, CloseCode.closing, 'the server is shutting down');
  const slow = () => endBoth(client, owner, CloseCode.slow, 'too slow');
  const keep = (waiting: number) => {
    try {
      hold.resize(waiting);
    } catch {
      const reason = 'unread messages use too much memory';
      onRefused(reason);
      endBoth(client, owner, CloseCode.tooMuch, reason);
    }
  };
  pipeFrames(client, owner, { ...options, slow, keep, isFull: () => false });
  pipeFrames(owner, client, {
    ...options,
    slow,
    keep: (waiting) => unread.resize(waiting),
    isFull: () => unread.isFull,
  });
  owner.once('close', (code, reason) => {
    if (isSendable(code)) close(client, code, reason.toString());
    else close(client, CloseCode.moved, 'the session has moved');
  });
  client.once('close', (code, reason) => {
    hold[Symbol.dispose]();
    unread[Symbol.dispose]();
    for (const listener of aborting) listener[Symbol.dispose]();
    if (isSendable(code)) close(owner, code, reason.toString());
    else owner.terminate();
  });
  const aborting = [onAbort(gone, moved), onAbort(closing, stopped)];
  owner.resume();
}

interface PipeOptions extends Pick<ProxySocketOptions, 'slowClientTimeoutMs' | 'bufferBytes'> {
  /** Called if a side does not read. */
  readonly slow: () => void;
  /** Called with the number of waiting bytes. */
  readonly keep: (waiting: number) => void;
  /** Whether a side gets more only after it has read everything. */
  readonly isFull: () => boolean;
}

function pipeFrames(
  from: WebSocket,
  to: WebSocket,
  { slowClientTimeoutMs, bufferBytes, slow, keep, isFull }: PipeOptions,
): void {
  let timer: NodeJS.Timeout | undefined;
  let frames = 0;
  const waiting = () => (to.bufferedAmount === 0 ? 0 : to.bufferedAmount + frames * FRAME_BYTES);
  const isWritable = () => waiting() <= (isFull() ? 0 : bufferBytes);
  const taken = () => {
    frames--;
    if (to.readyState === WebSocket.OPEN) keep(waiting());
    if (!from.isPaused || !isWritable()) return;
    clearTimeout(timer);
    from.resume();
  };
  const passed = () => {
    if (from.isPaused || isWritable()) return;
    from.pause();
    timer = setTimeout(slow, slowClientTimeoutMs);
  };
  const put = (send: (done: () => void) => void) => {
    if (to.readyState !== WebSocket.OPEN) return;
    frames++;
    send(taken);
    passed();
    keep(waiting());
  };
  from.on('message', (data, binary) => put((done) => to.send(data, { binary }, done)));
  from.on('ping', (data) => put((done) => to.ping(data, undefined, done)));
  from.on('pong', (data) => put((done) => to.pong(data, undefined, done)));
  from.on('error', () => {}); // closing follows
  from.once('close', () => clearTimeout(timer));
  to.once('close', () => clearTimeout(timer));
}

function endBoth(client: WebSocket, owner: WebSocket, code: number, reason: string): void {
  close(client, code, reason);
  owner.terminate();
}

function close(socket: WebSocket, code: number, reason: string): void {
  closeSocket(socket, code, reason, CLOSING_MS);
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
  // Only an error status can refuse an upgrade.
  if (status < 400) throw unanswered(new Error(`it answered with ${status}`));
  const type = { 'content-type': headers['content-type'] ?? 'application/json' };
  const after = headers['retry-after'] === undefined ? {} : { 'retry-after': headers['retry-after'] };
  return new Response(Buffer.concat(parts), { status, headers: { ...type, ...after } });
}
