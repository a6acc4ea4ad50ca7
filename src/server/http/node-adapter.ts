/**
 * Connects the app to a Node server: requests, WebSocket upgrades, and responses. Short texts are written at once; of longer
 * ones, a client that does not read is cut off, so that unread data does not fill the memory.
 */

import {
  createServer,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type Server,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { Duplex } from 'node:stream';
import { getRequestListener } from '@hono/node-server';
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import { WebSocketServer } from 'ws';
import { toRequest } from '../../lib/node-web.ts';
import { CellaError } from '../../protocol/errors.ts';
import { jsonBytes } from '../../protocol/json-pieces.ts';
import type { UnreadData, UnreadLimit } from '../unread-limit.ts';
import type { Fetch } from './app.ts';
import { textOf } from './bodies.ts';
import { errorResponse } from './error-response.ts';
import { limitPartialMessages } from './partial-messages.ts';
import type { ListenerKind, RequestBindings, Upgrade } from './server-context.ts';

interface SendOptions {
  /** How long a client may go without reading from a response. */
  readonly slowClientTimeoutMs: number;
  readonly unread: UnreadLimit;
  /** Called when a client is cut off because it did not read. */
  readonly onSlow: () => void;
}

interface NodeServerOptions extends SendOptions {
  readonly listener: ListenerKind;
  readonly fetch: Fetch;
  /** The largest frame a client may send. */
  readonly frameLimitBytes: number;
  readonly tls?: { readonly cert: Buffer; readonly key: Buffer } | undefined;
  /** Called with errors that the app did not catch. */
  readonly onError: (error: unknown) => void;
}

const HEADERS_TIMEOUT_MS = 30_000;
/** For a whole request: uploads may be large and connections slow. */
const REQUEST_TIMEOUT_MS = 3_600_000;
const KEEP_ALIVE_MS = 65_000;

export function createNodeServer(parts: NodeServerOptions): Server {
  const { listener, fetch, frameLimitBytes, tls, onError } = parts;
  const sender = new ResponseSender(parts);
  const onRequest = getRequestListener(
    async (request, { incoming: given, outgoing }) => {
      const incoming = given as IncomingMessage;
      const bindings: RequestBindings = { incoming, socket: incoming.socket, listener };
      const response = await fetch(request, bindings);
      return sender.send(response, outgoing as ServerResponse, bindings.userId);
    },
    {
      overrideGlobalObjects: false,
      // A malformed request, such as one without a Host.
      errorHandler: (error) => {
        onError(error);
        return new Response(null, { status: 400 });
      },
    },
  );
  const options = {
    headersTimeout: HEADERS_TIMEOUT_MS,
    requestTimeout: REQUEST_TIMEOUT_MS,
    // Some clients offer another protocol with every request, but expect a normal response.
    shouldUpgradeCallback: ({ headers, method }: IncomingMessage) =>
      method === 'GET' && headers.upgrade?.toLowerCase() === 'websocket',
  };
  const server = tls ? createTlsServer({ ...options, ...tls }, onRequest) : createServer(options, onRequest);
  server.keepAliveTimeout = KEEP_ALIVE_MS;
  const sockets = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    maxPayload: frameLimitBytes,
    // SocketConnection sends pongs, because it knows whether the client reads.
    autoPong: false,
  });
  server.on('upgrade', (incoming, socket, head) => {
    socket.on('error', () => {}); // the client has gone
    const upgrade: Upgrade = { accept: undefined, options: undefined, place: undefined };
    const leave = () => upgrade.place?.[Symbol.dispose]();
    socket.once('close', leave);
    const answer = async () => {
      const response = await fetch(toRequest(incoming), { incoming, socket: incoming.socket, listener, upgrade });
      const { accept, options } = upgrade;
      if (!accept || !options) return await refuse(socket, await refusalResponse(response));
      sockets.handleUpgrade(incoming, socket, head, (client) => {
        limitPartialMessages(client, socket, options.room(), options.onRefused);
        accept(client, options);
      });
    };
    const answered = answer().catch((error) => {
      onError(error);
      socket.destroy();
    });
    // The client may have disconnected before its slot was taken.
    void answered.then(() => socket.closed && leave());
  });
  return server;
}

/** Passes only refusals on. Other responses are meant for plain requests, and may never end. */
async function refusalResponse(response: Response): Promise<Response> {
  if (response.status >= 400) return response;
  await response.body?.cancel();
  return errorResponse(
    new CellaError('INVALID_REQUEST', 'This is not a WebSocket: send the request without an upgrade.'),
  );
}

async function refuse(socket: Duplex, response: Response): Promise<void> {
  const body = Buffer.from(await response.arrayBuffer());
  const headers = [...response.headers].map(([name, value]) => `${name}: ${value}`);
  const head = [
    `HTTP/1.1 ${response.status} ${STATUS_CODES[response.status] ?? ''}`,
    ...headers.filter((line) => !/^(connection|content-length):/i.test(line)),
    'connection: close',
    `content-length: ${body.length}`,
  ];
  socket.end(Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`), body]), () => socket.destroy());
}

/** Fits into a connection's buffers at once. */
const SMALL_RESPONSE_BYTES = 64 * 1024;

/** The client of a response. */
interface ResponseClient {
  readonly outgoing: ServerResponse;
  /** Counts what it has not read. */
  readonly open: () => UnreadData;
  /** Counts a text, which is in memory already. */
  readonly hold: (bytes: number) => UnreadData;
  /** While reading is expected, a client that takes nothing for too long is cut off. */
  readonly expectReading: (expected: boolean) => void;
}

/** Sends responses, and counts what their clients have not read. */
export class ResponseSender {
  readonly #options: SendOptions;

  constructor(options: SendOptions) {
    this.#options = options;
  }

  /** Returns what the request listener must return. */
  send(response: Response, outgoing: ServerResponse, userId = ''): Response {
    const client = this.#clientOf(outgoing, userId);
    return sendText(response, client) || sendStream(response, client) ? RESPONSE_ALREADY_SENT : response;
  }

  #clientOf(outgoing: ServerResponse, userId: string): ResponseClient {
    const { slowClientTimeoutMs, onSlow, unread } = this.#options;
    const cut = () => {
      onSlow();
      outgoing.destroy();
    };
    const untilClosed = (data: UnreadData) => {
      if (outgoing.destroyed) data[Symbol.dispose]();
      else outgoing.once('close', () => data[Symbol.dispose]());
      return data;
    };
    outgoing.on('timeout', cut);
    return {
      outgoing,
      open: () => untilClosed(unread.open(userId, cut)),
      // A client that has gone must not cut others.
      hold: (bytes) => untilClosed(outgoing.destroyed ? unread.open(userId) : unread.hold(userId, bytes, cut)),
      expectReading: (expected) => void outgoing.setTimeout(expected ? slowClientTimeoutMs : 0),
    };
  }
}

/** Returns false, and sends nothing, if the response is not a text. */
function sendText(response: Response, { outgoing, hold, expectReading }: ResponseClient): boolean {
  const text = textOf(response);
  if (text === undefined) return false;
  const bytes = jsonBytes(text);
  outgoing.writeHead(response.status, { 'content-length': bytes, ...outgoingHeaders(response) });
  const unread = bytes > SMALL_RESPONSE_BYTES ? hold(bytes) : undefined;
  if (unread) expectReading(true);
  const pieces = typeof text === 'string' ? [text] : text;
  for (const piece of pieces) outgoing.write(piece, () => unread?.resize(outgoing.writableLength));
  outgoing.end();
  return true;
}

/** Returns false if there is no body. A client that disconnects, even before this, ends the stream: it may hold files open. */
function sendStream(response: Response, client: ResponseClient): boolean {
  const { outgoing } = client;
  const reader = response.body?.getReader();
  if (!reader) return false;
  const cancel = () => void reader.cancel().catch(() => {}); // the client has gone
  if (outgoing.destroyed) cancel();
  else {
    outgoing.once('close', cancel);
    outgoing.writeHead(response.status, outgoingHeaders(response));
    outgoing.flushHeaders();
    const isDownload = Number(response.headers.get('content-length') ?? 0) > SMALL_RESPONSE_BYTES;
    void pump(reader, client, isDownload);
  }
  return true;
}

async function pump(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  { outgoing, open, ...client }: ResponseClient,
  isDownload: boolean,
): Promise<void> {
  const unread = open();
  // The next piece of a download is in memory, too.
  const count = () => unread.resize(outgoing.writableLength * (isDownload ? 2 : 1));
  // Streams without a length handle slow clients themselves.
  const expectReading = isDownload ? client.expectReading : () => {};
  /** False at the end. A loop over pieces would keep the last one in memory while it waits. */
  const sendNext = async (): Promise<boolean> => {
    const { done, value } = await reader.read();
    if (done || outgoing.destroyed) return false;
    const sent = Promise.withResolvers<void>();
    const isBelowMark = outgoing.write(value, () => {
      count();
      sent.resolve();
    });
    count();
    if (isBelowMark && (outgoing.writableLength === 0 || !unread.isFull)) return true;
    expectReading(true);
    await untilClosed(outgoing, sent.promise);
    // The server itself may need time for the next piece.
    expectReading(false);
    return true;
  };
  try {
    while (await sendNext());
    expectReading(true);
    outgoing.end();
  } catch (error) {
    // The client sees the cut response.
    outgoing.destroy(error instanceof Error ? error : undefined);
  }
}

/** Also resolves when the connection closes. */
async function untilClosed(outgoing: ServerResponse, work: Promise<void>): Promise<void> {
  const closed = Promise.withResolvers<void>();
  outgoing.once('close', closed.resolve);
  await Promise.race([work, closed.promise]);
  outgoing.off('close', closed.resolve);
}

function outgoingHeaders({ headers: given }: Response): OutgoingHttpHeaders {
  const headers: OutgoingHttpHeaders = {};
  for (const [name, value] of given) headers[name] = value;
  const cookies = given.getSetCookie();
  if (cookies.length > 0) headers['set-cookie'] = cookies;
  return headers;
}
