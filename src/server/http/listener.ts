/** Puts the app behind Node's HTTP servers: requests, upgrades to WebSockets, and what is no HTTP at all. */

import { createServer, type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { Duplex } from 'node:stream';
import { getRequestListener } from '@hono/node-server';
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response';
import { WebSocketServer } from 'ws';
import { CellaError } from '../../protocol/errors.ts';
import { toRequest } from './as-request.ts';
import type { Bindings, Door, Upgrade } from './exchange.ts';
import { failureResponse } from './failure.ts';
import { sendText } from './text-response.ts';
import { boundUnfinished } from './unfinished.ts';

export interface ListenerOptions {
  readonly door: Door;
  readonly fetch: (request: Request, bindings: Bindings) => Response | Promise<Response>;
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

export function makeServer({ door, fetch, frameLimitBytes, tls, onError }: ListenerOptions): Server {
  const listener = getRequestListener(
    async (request, { incoming: given, outgoing }) => {
      const incoming = given as IncomingMessage;
      const response = await fetch(request, { incoming, socket: incoming.socket, door });
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
      const response = await fetch(toRequest(incoming), { incoming, socket: incoming.socket, door, upgrade });
      const { accept, room } = upgrade;
      if (!accept || !room) return await refuse(socket, await refusalOf(response));
      sockets.handleUpgrade(incoming, socket, head, (client) => {
        boundUnfinished(client, socket, room());
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
async function refusalOf(response: Response): Promise<Response> {
  if (response.status >= 400) return response;
  await response.body?.cancel();
  return failureResponse(new CellaError('INVALID_REQUEST', 'This is no WebSocket: ask without an upgrade.'));
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
