/** The MCP servers of the tools: started when first needed, shared by all calls, and restarted after they died. */

import { raceAbort } from '../../lib/abort.ts';
import { settlesWithin } from '../../lib/deadline.ts';
import { ownTurn } from '../../lib/event-loop.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { RecipeInfo } from '../../protocol/namespace-models.ts';
import type { PyValue } from '../../protocol/py-values.ts';
import type { NamespaceCallContext } from '../host-methods.ts';
import type { HostCommandOptions } from './host-command.ts';
import type { McpToolCall } from './mcp-calls.ts';
import type { McpConnection } from './mcp-connection.ts';
import { abortedError, type CallArguments } from './parameters.ts';
import type { CredentialLookup } from './tool-credentials.ts';
import type { McpTool, ToolDefinition } from './tool-definition.ts';
import type { LargeResultTurn } from './tool-output.ts';

const FAILURE_LASTS_MS = 30_000;
/** How long closing a session waits for servers that do not answer. */
const LONGEST_CLOSE_MS = 5000;

interface OpenMcpServer {
  readonly tool: McpTool;
  readonly connection: Promise<McpConnection>;
  opened?: McpConnection;
}

export class McpServers {
  readonly #hostOptions: HostCommandOptions;
  readonly #credentials: CredentialLookup | undefined;
  readonly #servers = new Map<string, OpenMcpServer>();
  /** Why a server did not start, and when. */
  readonly #failures = new WeakMap<McpTool, { readonly error: unknown; readonly at: number }>();
  #closed = false;

  constructor(hostOptions: HostCommandOptions, credentials: CredentialLookup | undefined) {
    this.#hostOptions = hostOptions;
    this.#credentials = credentials;
  }

  /** For listing tools, which must not wait repeatedly for a server that does not start. */
  async recipes(tool: McpTool): Promise<RecipeInfo[]> {
    const failed = this.#failures.get(tool);
    if (failed !== undefined && performance.now() - failed.at < FAILURE_LASTS_MS) throw failed.error;
    const { schemaParameters } = await import('./mcp-calls.ts');
    const { tools } = await this.#connect(tool);
    return [...tools].map(([name, { description = '', inputSchema }]) => ({
      name,
      description,
      parameters: schemaParameters(inputSchema),
    }));
  }

  async prepare(
    tool: McpTool,
    recipe: string | undefined,
    given: CallArguments,
    signal: AbortSignal,
  ): Promise<McpToolCall> {
    const { prepareMcp } = await import('./mcp-calls.ts');
    const { tools } = await raceAbort(this.#connect(tool), signal, () => abortedError(tool.name));
    return prepareMcp(tool, tools, recipe, given);
  }

  async call(call: McpToolCall, context: NamespaceCallContext, turn: LargeResultTurn): Promise<PyValue> {
    const { callee, tool } = call;
    const { callFailure, isLostSession } = await import('./mcp-calls.ts');
    const { mcpValue } = await import('./mcp-calls.ts');
    const options = {
      timeoutMs: Math.ceil(tool.timeout * 1000),
      signal: context.signal,
      progress: (text: string) => context.progress(text),
    };
    // Over HTTP, the SDK encodes all arguments at once.
    await ownTurn();
    for (let again = true; ; again = false) {
      const connection = await raceAbort(this.#connect(tool), context.signal, () => abortedError(callee));
      try {
        const result = await connection.call(call.name, call.arguments, options);
        return await mcpValue(callee, tool, result, connection.secrets, turn);
      } catch (error) {
        if (error instanceof CellaError) throw error;
        const failure = callFailure(callee, tool, connection, error, context.signal);
        // Without an answer of the server, the connection may be broken: the next call opens another.
        if (failure.connectionLost) await connection.close().catch(() => undefined);
        // The server has forgotten the session, and has done nothing yet.
        if (!(again && isLostSession(error))) throw failure.error;
      }
    }
  }

  /** Ends servers whose definition was changed or removed. */
  retain(tools: ReadonlyMap<string, ToolDefinition>): void {
    for (const [name, server] of this.#servers) {
      if (tools.get(name) === server.tool) continue;
      this.#servers.delete(name);
      // Fails if the server never started; its caller got that error.
      void closeServer(server).catch(() => undefined);
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    const servers = [...this.#servers.values()];
    this.#servers.clear();
    // A connection that is still being opened is closed as soon as it is open, or has failed.
    await settlesWithin(Promise.allSettled(servers.map(closeServer)), LONGEST_CLOSE_MS);
  }

  #connect(tool: McpTool): Promise<McpConnection> {
    if (this.#closed) throw new CellaError('SESSION_CLOSED', `The MCP server ${tool.name} was ended with its session.`);
    const before = this.#servers.get(tool.name);
    if (before?.tool === tool && before.opened?.closed !== true) return before.connection;
    if (before !== undefined) void closeServer(before).catch(() => undefined);
    const connection = this.#open(tool);
    const server: OpenMcpServer = { tool, connection };
    this.#servers.set(tool.name, server);
    connection.then(
      (opened) => {
        server.opened = opened;
        this.#failures.delete(tool);
      },
      // Waiting calls get the error; the next call tries again.
      (error: unknown) => {
        this.#failures.set(tool, { error, at: performance.now() });
        if (this.#servers.get(tool.name) === server) this.#servers.delete(tool.name);
      },
    );
    return connection;
  }

  async #open(tool: McpTool): Promise<McpConnection> {
    const { McpConnection } = await import('./mcp-connection.ts');
    return await McpConnection.open(tool, this.#hostOptions, this.#credentials);
  }
}

async function closeServer({ connection }: OpenMcpServer): Promise<void> {
  await (await connection).close();
}
