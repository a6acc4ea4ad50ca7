/** One open connection to an MCP server, over HTTP or to a program of the host. */

import {
  type CallToolResult,
  Client,
  type JSONRPCMessage,
  SdkError,
  SdkErrorCode,
  SSEClientTransport,
  StreamableHTTPClientTransport,
  type Tool,
  type Transport,
} from '@modelcontextprotocol/client';
import { settlesWithin, withTimeout } from '../../lib/deadline.ts';
import { type StartedProcess, startProcess } from '../../lib/run-process.ts';
import { messageOf } from '../../lib/values.ts';
import { jsonText } from '../../protocol/json-pieces.ts';
import { killTree, newProcessTag } from '../../sandbox/process-tree.ts';
import { type HostCommandOptions, hostEnv, notStartedError } from './host-command.ts';
import { openError, pythonName } from './mcp-calls.ts';
import { boundedFetch, messagesOf } from './mcp-limits.ts';
import { SchemaValidator } from './schema-validator.ts';
import { authenticate, type CredentialLookup, resolveEnvironment } from './tool-credentials.ts';
import type { McpTool } from './tool-definition.ts';
import { tail } from './tool-output.ts';

interface McpCallOptions {
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
        jsonSchemaValidator: new SchemaValidator(),
        versionNegotiation: tool.url !== undefined && tool.transport !== 'sse' ? { mode: 'auto' } : undefined,
        // Over HTTP, this would keep a stream open for the whole session.
        listChanged: tool.command === undefined ? undefined : { tools: { onChanged: (_, tools) => this.#know(tools) } },
      },
    );
    this.#client.onclose = () => {
      this.#closed = true;
    };
  }

  static async open(
    tool: McpTool,
    hostOptions: HostCommandOptions,
    credentials: CredentialLookup | undefined,
  ): Promise<McpConnection> {
    const transport = await makeTransport(tool, hostOptions, credentials);
    const connection = new McpConnection(tool, transport);
    const options = { timeout: Math.ceil(tool.start_timeout * 1000) };
    try {
      // The SDK limits its own requests. An SSE server must first send the address for requests.
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
      throw openError(tool, connection, error);
    }
  }

  /** Tools by their name in code. */
  get tools(): ReadonlyMap<string, Tool> {
    return this.#tools;
  }

  /** Whether it has ended, so that another must be opened. */
  get closed(): boolean {
    return this.#closed;
  }

  get secrets(): readonly string[] {
    return this.#transport.secrets;
  }

  get stderrTail(): string {
    return this.#transport.stderrTail();
  }

  async call(name: string, args: Record<string, unknown>, options: McpCallOptions): Promise<CallToolResult> {
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

  /** If two names become the same in Python, the first gets it, and the other keeps its own. Null if listing failed. */
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

interface McpTransport {
  readonly transport: Transport;
  /** Forms of credentials that the code must not see. */
  readonly secrets: readonly string[];
  /** The end of the program's stderr, or why Cella has closed the connection. */
  stderrTail(): string;
}

async function makeTransport(
  tool: McpTool,
  hostOptions: HostCommandOptions,
  credentials: CredentialLookup | undefined,
): Promise<McpTransport> {
  if (tool.command === undefined) return await overHttp(tool, credentials);
  const { env, secrets } = await resolveEnvironment(tool.env ?? {}, credentials, tool.name);
  const program = {
    command: tool.command,
    args: tool.args ?? [],
    env: { ...hostEnv(hostOptions), ...env },
    cwd: hostOptions.cwd,
  };
  const transport = new ChildProcessTransport(program);
  return { transport, secrets, stderrTail: () => transport.stderrTail };
}

async function overHttp(tool: McpTool, credentials: CredentialLookup | undefined): Promise<McpTransport> {
  const { headers, secrets } = await authenticate(tool.auth, credentials, tool.name);
  const url = new URL(tool.url ?? '');
  let refused = '';
  const fetch = boundedFetch((error) => {
    refused = error.message;
    void transport.close();
  });
  const options = { requestInit: { headers: { ...tool.headers, ...headers } }, fetch };
  const transport =
    tool.transport === 'sse' ? new SSEClientTransport(url, options) : new StreamableHTTPClientTransport(url, options);
  return { transport, secrets, stderrTail: () => refused };
}

/** How long a server may take to end after its input was closed. */
const GRACE_MS = 500;
/** How long its last output may take to arrive after it has ended. */
const DRAIN_TIMEOUT_MS = 500;

interface ServerProgram {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
}

/** Runs without variables of the host. Processes that it has started end with it. */
class ChildProcessTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;

  readonly #program: ServerProgram;
  #server: StartedProcess | undefined;
  #stderr = '';
  #ended: Promise<void> = Promise.resolve();
  #encoded: Promise<unknown> = Promise.resolve();

  constructor(program: ServerProgram) {
    this.#program = program;
  }

  /** The end of its stderr. */
  get stderrTail(): string {
    return this.#stderr.trim();
  }

  async start(): Promise<void> {
    const { command, args, env, cwd } = this.#program;
    const tag = newProcessTag();
    const kill = (pid: number) => killTree(pid, tag, { ownGroup: true });
    let server: StartedProcess;
    try {
      server = startProcess([command, ...args], { cwd, env: { ...env, ...tag.env }, hasStdin: true, killTree: kill });
      if (server.pid === undefined) await server.exited;
    } catch (error) {
      throw notStartedError(command, error);
    }
    this.#server = server;
    server.stdin?.on('error', (error) => this.onerror?.(error));
    const read = Promise.all([this.#receive(server), this.#keepStderr(server)]);
    this.#ended = server.exited.then(async () => {
      // Its last output may still arrive.
      await settlesWithin(read, DRAIN_TIMEOUT_MS);
      server.closeOutput();
      this.#server = undefined;
      this.onclose?.();
    });
  }

  async send(message: JSONRPCMessage): Promise<void> {
    // In order: a message must not overtake a long one.
    const json = this.#encoded.then(() => jsonText(message));
    this.#encoded = json.catch(() => {}); // the caller gets the error
    const text = await json;
    const stdin = this.#server?.stdin;
    const sent = await new Promise<boolean>((resolve) => {
      if (stdin === undefined) return resolve(false);
      for (const piece of typeof text === 'string' ? [text] : text) stdin.write(piece);
      stdin.write('\n', (error) => resolve(error == null));
    });
    if (sent) return;
    // If a server no longer reads, it has ended or is ending, and its last output will arrive.
    await settlesWithin(this.#ended, DRAIN_TIMEOUT_MS);
    throw new Error('the server ended');
  }

  async close(): Promise<void> {
    this.#server?.stdin?.end();
    if (await settlesWithin(this.#ended, GRACE_MS)) return;
    this.#server?.kill();
    await this.#ended;
  }

  async #receive(server: StartedProcess): Promise<void> {
    try {
      for await (const message of messagesOf(server.stdout)) this.onmessage?.(message);
    } catch (error) {
      this.#stderr = messageOf(error);
      server.kill();
    }
  }

  async #keepStderr({ stderr }: StartedProcess): Promise<void> {
    for await (const chunk of stderr) this.#stderr = tail(this.#stderr + chunk.toString());
  }
}
