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
import type { SessionTokens, TokenBinding } from '../access/contract.ts';
import { HeldBytes } from '../held-bytes.ts';
import { lightRequest } from '../http/body.ts';
import { failureResponse, toCellaError } from '../http/failure.ts';

const MCP_PATH = '/mcp';
/** Of one executor: an agent has a few requests under way, with those of its subagents. */
const MOST_CONNECTIONS = 256;
const HEADERS_TIMEOUT_MS = 30_000;
/** Of a message to the MCP server. */
const MOST_MESSAGE_BYTES = 16 * 1024 * 1024;
/** Of all such messages that are under way. */
const MOST_HELD_BYTES = 4 * MOST_MESSAGE_BYTES;

/** Whose gate it is. */
export type RunnerBinding = Pick<TokenBinding, 'session' | 'executor'>;

/** The model gateway: it checks the token itself, and takes none of another executor. False where the path is not its own. */
export type ModelCalls = (
  request: IncomingMessage,
  response: ServerResponse,
  gate: RunnerBinding & { readonly hasNetwork: boolean },
) => boolean;

export interface RunnerSocketParts {
  /** Where folders of gates are made; only this user can enter it. */
  readonly folder: string;
  readonly binding: RunnerBinding;
  /** Whether the agent has the network of the machine. */
  readonly hasNetwork: boolean;
  readonly tokens: Pick<SessionTokens, 'check'>;
  readonly models: ModelCalls;
  /** The session's own MCP server. */
  readonly mcp: (request: Request, as: TokenBinding) => Promise<Response>;
  readonly onError: (error: unknown) => void;
  /** Told of a token that is not good here. */
  readonly refused?: ((error: CellaError) => void) | undefined;
}

export class RunnerSocket implements AsyncDisposable {
  readonly folder: string;
  readonly #parts: RunnerSocketParts;
  readonly #held = new HeldBytes(MOST_HELD_BYTES);
  #server: Server | undefined;

  private constructor(folder: string, parts: RunnerSocketParts) {
    this.folder = folder;
    this.#parts = parts;
  }

  static async open(parts: RunnerSocketParts): Promise<RunnerSocket> {
    const gate = new RunnerSocket(makeGatewayFolder(parts.folder), parts);
    await gate.#listen();
    return gate;
  }

  /** Ends every connection and listens anew, in the same place. */
  async restart(): Promise<void> {
    await this.#end();
    await this.#listen();
  }

  /** Ends what is under way: a token is looked at when a request comes, and what it has opened could go on without it. */
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
    const { models, binding, hasNetwork, onError } = this.#parts;
    const mcp = getRequestListener((request) => this.#mcp(request), {
      overrideGlobalObjects: false,
      errorHandler: (error) => {
        onError(error);
        return new Response(null, { status: 400 });
      },
    });
    return (request, response) => {
      const [path] = (request.url ?? '').split('?');
      if (path === MCP_PATH) void mcp(request, response);
      else if (!models(request, response, { ...binding, hasNetwork }))
        response.writeHead(404, { connection: 'close' }).end();
    };
  }

  async #mcp(request: Request): Promise<Response> {
    const { tokens, binding, mcp } = this.#parts;
    try {
      const as = await tokens.check(tokenIn(request), binding);
      using held = this.#held.begin(binding.executor);
      return await mcp(await lightRequest(request, MOST_MESSAGE_BYTES, held), as);
    } catch (error) {
      const told = toCellaError(error, '-');
      if (told.code === 'INTERNAL') this.#parts.onError(error);
      if (told.code === 'UNAUTHENTICATED' || told.code === 'FORBIDDEN') this.#parts.refused?.(told);
      return failureResponse(told);
    }
  }
}

function tokenIn(request: Request): string {
  const [, token] = /^bearer (\S+)$/i.exec(request.headers.get('authorization') ?? '') ?? [];
  if (token !== undefined) return token;
  throw new CellaError('UNAUTHENTICATED', 'There is no session token.', {
    advice: 'Give the session token: `Authorization: Bearer cst_…`.',
  });
}
