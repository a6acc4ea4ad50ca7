/** The MCP server for one client: tools, resources, and instructions. */

import { randomUUID } from 'node:crypto';
import {
  type HandleRequestOptions,
  McpServer,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server';
import type { McpBackend } from './mcp-backend.ts';
import type { CallLimits, KeptConnection } from './mcp-executions.ts';
import { registerArtifactResources, registerArtifacts } from './tools/artifact-tools.ts';
import { registerDeps, registerSkills, registerTools } from './tools/namespace-tools.ts';
import { type ProtocolEra, registerRunCode } from './tools/run-code.ts';

const INSTRUCTIONS = `Cella runs Python in a kernel that keeps its state: use run_code for calculations, data and files, in small steps that build on each other. Before you write code for a common task, look for a skill with search_skills; afterwards, store what worked with create_skill. Code can use tools, skills, artifacts and deps without importing them.`;

export function createMcpServer(
  backend: McpBackend,
  { era, version }: { era: ProtocolEra; version: string },
): McpServer {
  const server = new McpServer({ name: 'cella', title: 'Cella', version }, { instructions: INSTRUCTIONS });
  const context = { server, backend };
  registerRunCode(context, era);
  registerTools(context);
  registerSkills(context);
  registerArtifacts(context);
  registerArtifactResources(context);
  registerDeps(context);
  return server;
}

/** Beyond this limit, the connection that was idle longest is closed. */
const MAX_CONNECTIONS = 64;

interface LegacyConnection {
  readonly transport: WebStandardStreamableHTTPServerTransport;
  readonly server: McpServer;
  readonly kept: KeptConnection | undefined;
}

/**
 * Clients of the 2025 protocol over HTTP. Each has its own connection, on which the server can ask and the client can cancel.
 */
export class LegacyConnections {
  readonly #make: () => McpServer;
  readonly #count: CallLimits['connect'] | undefined;
  readonly #byId = new Map<string, LegacyConnection>();

  /** `count`: for connections of several users. */
  constructor(make: () => McpServer, count?: CallLimits['connect']) {
    this.#make = make;
    this.#count = count;
  }

  async handle(request: Request, options?: HandleRequestOptions): Promise<Response> {
    const id = request.headers.get('mcp-session-id');
    if (id === null) return await this.#open(request, options);
    const known = this.#byId.get(id);
    if (!known) {
      const error = { code: -32_001, message: 'Session not found: initialize again.' };
      return Response.json({ jsonrpc: '2.0', error, id: null }, { status: 404 });
    }
    // Keeps the most recently used connection last in the map.
    this.#byId.delete(id);
    this.#byId.set(id, known);
    known.kept?.used();
    return await known.transport.handleRequest(request, options);
  }

  async close(): Promise<void> {
    await Promise.all([...this.#byId.keys()].map((id) => this.#drop(id)));
  }

  /** A request that is not an initialization gets the transport's own response and no connection. */
  async #open(request: Request, options: HandleRequestOptions | undefined): Promise<Response> {
    const server = this.#make();
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: () => randomUUID(),
      onsessioninitialized: (id) => {
        const kept = this.#count?.(options?.authInfo?.clientId, () => void this.#drop(id));
        return this.#keep(id, { transport, server, kept });
      },
      onsessionclosed: (id) => this.#drop(id),
    });
    await server.connect(transport);
    const response = await transport.handleRequest(request, options);
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
    connection?.kept?.[Symbol.dispose]();
    await connection?.server.close();
  }
}
