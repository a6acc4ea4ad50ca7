/** One open connection to an MCP server, with the tools that it has. */

import { type CallToolResult, Client, type Tool } from '@modelcontextprotocol/client';
import { CfWorkerJsonSchemaValidator } from '@modelcontextprotocol/client/validators/cf-worker';
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
  /** By the name that code writes. */
  readonly tools: ReadonlyMap<string, Tool>;
  readonly #client: Client;
  readonly #transport: McpTransport;
  #closed = false;

  private constructor(client: Client, transport: McpTransport, tools: readonly Tool[]) {
    this.#client = client;
    this.#transport = transport;
    const named = new Map<string, Tool>();
    for (const tool of tools) if (!named.has(pythonName(tool.name))) named.set(pythonName(tool.name), tool);
    this.tools = named;
    client.onclose = () => {
      this.#closed = true;
    };
  }

  static async open(tool: McpTool, place: HostPlace, credentials: Credentials | undefined): Promise<McpConnection> {
    const transport = await makeTransport(tool, place, credentials);
    const client = new Client(
      { name: 'cella', version: '1' },
      {
        // Schemas come from servers: they are walked through, never compiled to code.
        jsonSchemaValidator: new CfWorkerJsonSchemaValidator(),
        ...(tool.url !== undefined && tool.transport !== 'sse' ? { versionNegotiation: { mode: 'auto' } } : {}),
      },
    );
    const options = { timeout: Math.ceil(tool.start_timeout * 1000) };
    try {
      await client.connect(transport.transport, options);
      const { tools } = await client.listTools(undefined, options);
      return new McpConnection(client, transport, tools);
    } catch (error) {
      await client.close();
      await transport.transport.close();
      throw openFailure(tool, transport, error);
    }
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
}
