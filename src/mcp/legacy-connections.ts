/** Clients of the 2025 protocol over HTTP. Each has its own connection, so that the server can ask it and it can cancel. */

import { randomUUID } from 'node:crypto';
import { type McpServer, WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/server';

/** The one that was not used for the longest time goes first. */
const MAX_CONNECTIONS = 64;

interface LegacyConnection {
  readonly transport: WebStandardStreamableHTTPServerTransport;
  readonly server: McpServer;
}

export class LegacyConnections {
  readonly #make: () => McpServer;
  readonly #byId = new Map<string, LegacyConnection>();

  constructor(make: () => McpServer) {
    this.#make = make;
  }

  async handle(request: Request): Promise<Response> {
    const id = request.headers.get('mcp-session-id');
    if (id === null) return await this.#open(request);
    const known = this.#byId.get(id);
    if (!known) {
      const error = { code: -32_001, message: 'Session not found: initialize again.' };
      return Response.json({ jsonrpc: '2.0', error, id: null }, { status: 404 });
    }
    // The last in the map is the last that was used.
    this.#byId.delete(id);
    this.#byId.set(id, known);
    return await known.transport.handleRequest(request);
  }

  async close(): Promise<void> {
    await Promise.all([...this.#byId.keys()].map((id) => this.#drop(id)));
  }

  /** What is no initialization gets the transport's own answer, and no connection. */
  async #open(request: Request): Promise<Response> {
    const server = this.#make();
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: () => randomUUID(),
      onsessioninitialized: (id) => this.#keep(id, { transport, server }),
      onsessionclosed: (id) => this.#drop(id),
    });
    await server.connect(transport);
    const response = await transport.handleRequest(request);
    if (transport.sessionId === undefined) await server.close();
    return response;
  }

  async #keep(id: string, connection: LegacyConnection): Promise<void> {
    this.#byId.set(id, connection);
    const [oldest] = this.#byId.keys();
    if (this.#byId.size > MAX_CONNECTIONS && oldest !== undefined) await this.#drop(oldest);
  }

  async #drop(id: string): Promise<void> {
    const connection = this.#byId.get(id);
    this.#byId.delete(id);
    await connection?.server.close();
  }
}
