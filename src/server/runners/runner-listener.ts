/**
 * The one Unix socket by which a runner reaches the host, in a folder that only its environment sees. It serves the model
 * gateway and the session's MCP server to requests with the token of a turn of this runner.
 */

import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http';
import { getRequestListener } from '@hono/node-server';
import { CellaError } from '../../protocol/errors.ts';
import { listenInGateway, makeGatewayFolder } from '../../sandbox/mount-points.ts';
import type { SessionTokens, TokenBinding } from '../access/session-tokens.ts';
import { errorResponse, toCellaError } from '../http/error-response.ts';
import { ResponseSender } from '../http/node-adapter.ts';
import { ByteLimit, type ByteReservation } from '../request-limits.ts';
import type { UnreadLimit } from '../unread-limit.ts';

const MCP_PATH = '/mcp';
/** Per runner. An agent and its subagents have only a few requests open. */
const MOST_CONNECTIONS = 256;
const HEADERS_TIMEOUT_MS = 30_000;
/** The limit of all unfinished messages to the MCP server together. */
const MOST_HELD_BYTES = 64 * 1024 * 1024;
/** How long a runner may go without reading from a response. */
const SLOW_RUNNER_MS = 30_000;

/** The session and runner that the socket belongs to. */
type RunnerBinding = Pick<TokenBinding, 'session' | 'runner'>;

/** The model gateway. It checks that the token belongs to this runner. False if the path is not its own. */
type ModelCalls = (
  request: IncomingMessage,
  response: ServerResponse,
  socket: RunnerBinding & { readonly hasNetwork: boolean },
) => boolean;

export interface RunnerListenerParts {
  /** The folder of all runner sockets; only its owner can enter it. */
  readonly folder: string;
  readonly binding: RunnerBinding;
  /** Whether the agent has the network of the machine. */
  readonly hasNetwork: boolean;
  readonly tokens: Pick<SessionTokens, 'check'>;
  readonly models: ModelCalls;
  /** The session's own MCP server. */
  readonly mcp: (request: Request, as: TokenBinding, hold: ByteReservation) => Promise<Response>;
  /** What clients have not read. */
  readonly unread: UnreadLimit;
  readonly onError: (error: unknown) => void;
  /** Called for an invalid token. */
  readonly refused?: ((error: CellaError) => void) | undefined;
}

export class RunnerListener implements AsyncDisposable {
  readonly folder: string;
  readonly #parts: RunnerListenerParts;
  readonly #held = new ByteLimit(MOST_HELD_BYTES);
  #server: Server | undefined;

  private constructor(folder: string, parts: RunnerListenerParts) {
    this.folder = folder;
    this.#parts = parts;
  }

  static async open(parts: RunnerListenerParts): Promise<RunnerListener> {
    const socket = new RunnerListener(makeGatewayFolder(parts.folder), parts);
    await socket.#listen();
    return socket;
  }

  /** Closes all connections and listens again at the same path. */
  async restart(): Promise<void> {
    await this.#end();
    await this.#listen();
  }

  /** Closes all connections. Tokens are checked per request, so an open response would outlive its token. */
  closeConnections(): void {
    this.#server?.closeAllConnections();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#end();
    await rm(this.folder, { recursive: true, force: true });
  }

  async #listen(): Promise<void> {
    const server = createServer({ headersTimeout: HEADERS_TIMEOUT_MS, requestTimeout: 0 }, this.#listener());
    server.maxConnections = MOST_CONNECTIONS;
    await listenInGateway(this.folder, server);
    server.on('error', this.#parts.onError);
    this.#server = server;
  }

  async #end(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    if (!server) return;
    const closed = once(server, 'close');
    server.close();
    server.closeAllConnections();
    await closed;
  }

  #listener(): RequestListener {
    const { models, binding, hasNetwork, unread, onError } = this.#parts;
    const sender = new ResponseSender({ unread, slowClientTimeoutMs: SLOW_RUNNER_MS, onSlow: () => {} });
    const mcp = getRequestListener(
      async (request, { outgoing }) => await this.#mcp(request, outgoing as ServerResponse, sender),
      {
        overrideGlobalObjects: false,
        errorHandler: (error) => {
          onError(error);
          return new Response(null, { status: 400 });
        },
      },
    );
    return (request, response) => {
      const [path] = (request.url ?? '').split('?');
      if (path === MCP_PATH) void mcp(request, response);
      else if (!models(request, response, { ...binding, hasNetwork }))
        response.writeHead(404, { connection: 'close' }).end();
    };
  }

  async #mcp(request: Request, outgoing: ServerResponse, sender: ResponseSender): Promise<Response> {
    const { tokens, binding, mcp } = this.#parts;
    const hold = this.#held.reserve(binding.runner);
    outgoing.once('close', () => hold[Symbol.dispose]());
    try {
      const as = await tokens.check(tokenIn(request), binding);
      return sender.send(await mcp(request, as, hold), outgoing, as.userId);
    } catch (error) {
      const known = toCellaError(error, '-');
      if (known.code === 'INTERNAL') this.#parts.onError(error);
      if (known.code === 'UNAUTHENTICATED' || known.code === 'FORBIDDEN') this.#parts.refused?.(known);
      return errorResponse(known);
    }
  }
}

function tokenIn(request: Request): string {
  const [, token] = /^bearer (\S+)$/i.exec(request.headers.get('authorization') ?? '') ?? [];
  if (token !== undefined) return token;
  throw new CellaError('UNAUTHENTICATED', 'The request has no session token.', {
    advice: 'Send the session token: `Authorization: Bearer cst_…`.',
  });
}
