/**
 * A WebSocket, passed on to another server frame by frame, pings and the reason of its end included: both ends see each
 * other as if nobody were between them. A side that does not read holds the other one up, and costs a bounded buffer.
 */

import type { IncomingMessage, OutgoingHttpHeaders } from 'node:http';
import { WebSocket } from 'ws';
import { CloseCode } from '../../protocol/api/socket-frames.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { Hold } from '../held-bytes.ts';
import { unanswered } from './relay.ts';

export interface SocketTarget {
  /** Of the other server. */
  readonly url: string;
  readonly path: string;
  readonly headers: OutgoingHttpHeaders;
  readonly protocols: readonly string[];
  /** The other server has gone. */
  readonly gone: AbortSignal;
}

export interface BridgeOptions {
  /** How long a side may take to read what it was sent. */
  readonly patienceMs: number;
  /** How much may wait for a side. */
  readonly bufferBytes: number;
  /** For what the client has sent, until the other server takes it. */
  readonly hold: Hold;
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
  const socket = begin(target);
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
  const leave = () => socket.terminate();
  gone.addEventListener('abort', leave, { once: true });
  socket.once('close', () => gone.removeEventListener('abort', leave));
  return await promise;
}

function begin({ url, path, headers, protocols }: Omit<SocketTarget, 'gone'>): WebSocket {
  const options = { headers, perMessageDeflate: false, autoPong: false, handshakeTimeout: HANDSHAKE_MS };
  try {
    return new WebSocket(`${url.replace(/^http/, 'ws').replace(/\/$/, '')}${path}`, [...protocols], options);
  } catch (cause) {
    throw new CellaError('INVALID_REQUEST', 'Sec-WebSocket-Protocol: must be different words.', { cause });
  }
}

export function bridge(client: WebSocket, owner: WebSocket, options: BridgeOptions): void {
  const { gone, ending, hold } = options;
  const moved = () => end(client, owner, CloseCode.moved, 'the session has moved');
  const stopped = () => end(client, owner, CloseCode.stopping, 'the server is ending');
  gone.addEventListener('abort', moved, { once: true });
  ending.addEventListener('abort', stopped, { once: true });
  const slow = () => end(client, owner, CloseCode.slow, 'too slow');
  const keep = (waiting: number) => {
    try {
      hold.be(waiting);
    } catch {
      end(client, owner, CloseCode.tooMuch, 'messages that nobody takes hold too much');
    }
  };
  pass(client, owner, { ...options, slow, keep });
  pass(owner, client, { ...options, slow, keep: () => {} });
  owner.once('close', (code, reason) => {
    if (isSendable(code)) close(client, code, reason.toString());
    else close(client, CloseCode.moved, 'the session has moved');
  });
  client.once('close', (code, reason) => {
    hold[Symbol.dispose]();
    gone.removeEventListener('abort', moved);
    ending.removeEventListener('abort', stopped);
    if (isSendable(code)) close(owner, code, reason.toString());
    else owner.terminate();
  });
  if (gone.aborted) moved();
  if (ending.aborted) stopped();
  owner.resume();
}

interface Passing extends Pick<BridgeOptions, 'patienceMs' | 'bufferBytes'> {
  /** Told that a side does not read. */
  readonly slow: () => void;
  /** Told how many bytes wait for it. */
  readonly keep: (waiting: number) => void;
}

function pass(from: WebSocket, to: WebSocket, { patienceMs, bufferBytes, slow, keep }: Passing): void {
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

function end(client: WebSocket, owner: WebSocket, code: number, reason: string): void {
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
