/** One open connection to an MCP server, with the tools that it has. */

import { type CallToolResult, Client, SdkError, SdkErrorCode, type Tool } from '@modelcontextprotocol/client';
import { withTimeout } from '../../lib/deadline.ts';
import { BoundedSchemas } from './bounded-schemas.ts';
import type { Credentials } from './credentials.ts';
import type { HostPlace } from './host-command.ts';
import type { McpTool } from './mcp-definition.ts';
import { openFailure } from './mcp-failure.ts';
import { pythonName } from './mcp-schema.ts';
import { type McpTransport, makeTransport } from './mcp-transport.ts';

export interface CallOptions {
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  progress(text: string): void;
}

export class McpConnection {
  readonly #client: Client;
  readonly #transport: McpTransport;
  #tools: ReadonlyMap<string, Tool> = new Map();
  #closed = false;

  private constructor(tool: McpTool, transport: McpTransport) {
    this.#transport = transport;
    this.#client = new Client(
      { name: 'cella', version: '1' },
      {
        jsonSchemaValidator: new BoundedSchemas(),
        ...(tool.url !== undefined && tool.transport !== 'sse' ? { versionNegotiation: { mode: 'auto' } } : {}),
        // Over HTTP, this would hold a stream open for as long as the session lasts.
        ...(tool.command === undefined
          ? {}
          : { listChanged: { tools: { onChanged: (_, tools) => this.#know(tools) } } }),
      },
    );
    this.#client.onclose = () => {
      this.#closed = true;
    };
  }

  static async open(tool: McpTool, place: HostPlace, credentials: Credentials | undefined): Promise<McpConnection> {
    const transport = await makeTransport(tool, place, credentials);
    const connection = new McpConnection(tool, transport);
    const options = { timeout: Math.ceil(tool.start_timeout * 1000) };
    try {
      // The SDK has a limit for what it asks. An SSE server first has to say where to ask.
      const connecting = connection.#client.connect(transport.transport, options);
      await withTimeout(
        connecting,
        options.timeout,
        () => new SdkError(SdkErrorCode.RequestTimeout, 'it does not answer'),
      );
      const { tools } = await connection.#client.listTools(undefined, options);
      connection.#know(tools);
      return connection;
    } catch (error) {
      await connection.close();
      await transport.transport.close();
      throw openFailure(tool, connection, error);
    }
  }

  /** By the name that code writes. */
  get tools(): ReadonlyMap<string, Tool> {
    return this.#tools;
  }

  /** It has ended by itself, and another must be opened. */
  get closed(): boolean {
    return this.#closed;
  }

  get secrets(): readonly string[] {
    return this.#transport.secrets;
  }

  get lastWords(): string {
    return this.#transport.lastWords();
  }

  async call(name: string, args: Record<string, unknown>, options: CallOptions): Promise<CallToolResult> {
    const { timeoutMs, signal } = options;
    return await this.#client.callTool(
      { name, arguments: args },
      {
        timeout: timeoutMs,
        maxTotalTimeout: timeoutMs,
        signal,
        onprogress: ({ message, progress, total }) => {
          options.progress(message ?? (total === undefined ? String(progress) : `${progress} of ${total}`));
        },
      },
    );
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#client.close();
  }

  /** Where two names are the same to Python, the first has it, and the other keeps its own. Null is a list that failed. */
  #know(tools: readonly Tool[] | null): void {
    if (tools === null) return;
    const named = new Map<string, Tool>();
    for (const tool of tools) {
      const name = pythonName(tool.name);
      named.set(named.has(name) ? tool.name : name, tool);
    }
    this.#tools = named;
  }
}
