/** Connects the app to Node's HTTP servers: requests, upgrades to WebSockets, and a fast path for responses that are one text. */

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
import { type JsonText, jsonBytes } from '../json-pieces.ts';
import { errorResponse } from './error-response.ts';
import { limitPartialMessages } from './partial-message-meter.ts';
import type { ListenerKind, RequestBindings, Upgrade } from './request-context.ts';

interface NodeServerOptions {
  readonly door: ListenerKind;
  readonly fetch: (request: Request, bindings: RequestBindings) => Response | Promise<Response>;
  /** The largest frame that a client may send. */
  readonly frameLimitBytes: number;
  readonly tls?: { readonly cert: Buffer; readonly key: Buffer } | undefined;
  /** Told of what the app did not catch. */
  readonly onError: (error: unknown) => void;
}

const HEADERS_TIMEOUT_MS = 30_000;
/** Of a whole request: files may be large and lines slow. */
const REQUEST_TIMEOUT_MS = 3_600_000;
const KEEP_ALIVE_MS = 65_000;

export function createNodeServer({ door, fetch, frameLimitBytes, tls, onError }: NodeServerOptions): Server {
  const listener = getRequestListener(
    async (request, { incoming: given, outgoing }) => {
      const incoming = given as IncomingMessage;
      const response = await fetch(request, { incoming, socket: incoming.socket, listener: door });
      return sendText(response, outgoing as ServerResponse) ? RESPONSE_ALREADY_SENT : response;
    },
    {
      overrideGlobalObjects: false,
      // A request that cannot be read at all, such as one without a Host.
      errorHandler: (error) => {
        onError(error);
        return new Response(null, { status: 400 });
      },
    },
  );
  const options = {
    headersTimeout: HEADERS_TIMEOUT_MS,
    requestTimeout: REQUEST_TIMEOUT_MS,
    // Some clients offer another protocol with every request, and mean the request.
    shouldUpgradeCallback: ({ headers, method }: IncomingMessage) =>
      method === 'GET' && headers.upgrade?.toLowerCase() === 'websocket',
  };
  const server = tls ? createTlsServer({ ...options, ...tls }, listener) : createServer(options, listener);
  server.keepAliveTimeout = KEEP_ALIVE_MS;
  const sockets = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    maxPayload: frameLimitBytes,
    // Answered where it can be seen that the client reads.
    autoPong: false,
  });
  server.on('upgrade', (incoming, socket, head) => {
    socket.on('error', () => {}); // whoever it was has gone
    const upgrade: Upgrade = { accept: undefined, room: undefined };
    const answer = async () => {
      const response = await fetch(toRequest(incoming), { incoming, socket: incoming.socket, listener: door, upgrade });
      const { accept, room } = upgrade;
      if (!accept || !room) return await refuse(socket, await refusalResponse(response));
      sockets.handleUpgrade(incoming, socket, head, (client) => {
        limitPartialMessages(client, socket, room());
        accept(client, room);
      });
    };
    void answer().catch((error) => {
      onError(error);
      socket.destroy();
    });
  });
  return server;
}

/** An answer that is no refusal may be without an end, and is for whoever asks without an upgrade. */
async function refusalResponse(response: Response): Promise<Response> {
  if (response.status >= 400) return response;
  await response.body?.cancel();
  return errorResponse(new CellaError('INVALID_REQUEST', 'This is no WebSocket: ask without an upgrade.'));
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

const texts = new WeakMap<Response, JsonText>();

/** Only for what `sendText` sends: the text is not its body, which as a stream would cost more than all else about it. */
export function textResponse(text: JsonText, init: ResponseInit): Response {
  const response = new Response(null, init);
  texts.set(response, text);
  return response;
}

/** False where the body is something else: nothing was sent then. */
function sendText(response: Response, outgoing: ServerResponse): boolean {
  const text = texts.get(response);
  if (text === undefined) return false;
  const headers: OutgoingHttpHeaders = { 'content-length': jsonBytes(text) };
  for (const [name, value] of response.headers) headers[name] = value;
  const cookies = response.headers.getSetCookie();
  if (cookies.length > 0) headers['set-cookie'] = cookies;
  outgoing.writeHead(response.status, headers);
  if (typeof text === 'string') outgoing.end(text);
  else {
    for (const piece of text) outgoing.write(piece);
    outgoing.end();
  }
  return true;
}
