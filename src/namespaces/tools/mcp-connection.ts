/** One open connection to an MCP server, over HTTP or to a program of the host. */

import { type ChildProcessByStdio, spawn } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import {
  type CallToolResult,
  Client,
  deserializeMessage,
  type JSONRPCMessage,
  SdkError,
  SdkErrorCode,
  SSEClientTransport,
  StreamableHTTPClientTransport,
  serializeMessage,
  type Tool,
  type Transport,
} from '@modelcontextprotocol/client';
import { settlesWithin, withTimeout } from '../../lib/deadline.ts';
import { endsAfterKill } from '../../lib/process-end.ts';
import { killTree, newProcessTag } from '../../sandbox/process-tree.ts';
import { BoundedSchemas } from './bounded-schemas.ts';
import { type HostCommandOptions, hostEnv, notStartedError } from './host-command.ts';
import { openError, pythonName } from './mcp-calls.ts';
import { authenticate, type CredentialLookup, resolveEnvironment } from './tool-credentials.ts';
import type { McpTool } from './tool-definition.ts';
import { tail } from './tool-output.ts';

export interface McpCallOptions {
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

  static async open(
    tool: McpTool,
    hostOptions: HostCommandOptions,
    credentials: CredentialLookup | undefined,
  ): Promise<McpConnection> {
    const transport = await makeTransport(tool, hostOptions, credentials);
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
      throw openError(tool, connection, error);
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

export interface McpTransport {
  readonly transport: Transport;
  /** Forms of credentials that must not come back to the code. */
  readonly secrets: readonly string[];
  /** What the program has written to stderr lately. */
  stderrTail(): string;
}

export async function makeTransport(
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
  const options = { requestInit: { headers: { ...tool.headers, ...headers } } };
  const transport =
    tool.transport === 'sse' ? new SSEClientTransport(url, options) : new StreamableHTTPClientTransport(url, options);
  return { transport, secrets, stderrTail: () => '' };
}

/** How long a server has to end by itself once its input is closed. */
const GRACE_MS = 500;
/** And how long its last words may take to arrive once it has ended. */
const LAST_WORDS_MS = 500;

export interface ServerProgram {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
}

type ServerProcess = ChildProcessByStdio<Writable, Readable, Readable>;

/** It leads a process group of its own, gets no variable of the host, and takes everything it started along when it ends. */
export class ChildProcessTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;

  readonly #program: ServerProgram;
  readonly #mark = newProcessTag();
  readonly #lines = new MessageLines();
  #child: ServerProcess | undefined;
  #lastWords = '';
  #ended: Promise<void> = Promise.resolve();

  constructor(program: ServerProgram) {
    this.#program = program;
  }

  /** The end of what it has written to stderr. */
  get stderrTail(): string {
    return this.#lastWords.trim();
  }

  async start(): Promise<void> {
    const { command, args, env, cwd } = this.#program;
    const child = spawn(command, args, { cwd, env: { ...env, ...this.#mark.env }, stdio: 'pipe', detached: true });
    this.#child = child;
    this.#ended = new Promise((resolve) => {
      child.once('exit', () => {
        // What the server left behind may hold the pipes open.
        this.#kill();
        const timer = setTimeout(() => this.#end(resolve), LAST_WORDS_MS);
        child.once('close', () => {
          clearTimeout(timer);
          this.#end(resolve);
        });
      });
      child.on('error', () => resolve());
    });
    child.stdin.on('error', (error) => this.onerror?.(error));
    child.stderr.on('data', (chunk: Buffer) => {
      this.#lastWords = tail(this.#lastWords + chunk.toString());
    });
    child.stdout.on('data', (chunk: Buffer) => this.#receive(chunk));
    await new Promise<void>((resolve, reject) => {
      child.once('spawn', resolve);
      child.once('error', (error) => reject(notStartedError(command, error)));
    });
  }

  async send(message: JSONRPCMessage): Promise<void> {
    const child = this.#child;
    const sent = await new Promise<boolean>((resolve) => {
      if (child === undefined) resolve(false);
      else child.stdin.write(serializeMessage(message), (error) => resolve(error == null));
    });
    if (sent) return;
    // A server that no longer reads has ended, or is about to, and its last words are on the way.
    await Promise.race([this.#ended, delay(LAST_WORDS_MS, undefined, { ref: false })]);
    throw new Error('the server ended');
  }

  async close(): Promise<void> {
    this.#child?.stdin.end();
    if (await settlesWithin(this.#ended, GRACE_MS)) return;
    const { pid } = this.#child ?? {};
    this.#kill();
    await endsAfterKill(this.#ended, `The MCP server ${this.#program.command} (process ${pid})`);
  }

  #receive(chunk: Buffer): void {
    try {
      for (const message of this.#lines.push(chunk)) this.onmessage?.(message);
    } catch (error) {
      this.#lastWords = error instanceof Error ? error.message : String(error);
      this.#child?.stdout.removeAllListeners('data');
      this.#kill();
    }
  }

  #kill(): void {
    if (this.#child?.pid !== undefined) killTree(this.#child.pid, this.#mark, { ownGroup: true });
  }

  /** Once, however it came to its end. */
  #end(done: () => void): void {
    const child = this.#child;
    this.#child = undefined;
    if (child !== undefined) {
      for (const stream of [child.stdin, child.stdout, child.stderr]) stream.destroy();
      this.onclose?.();
    }
    done();
  }
}

const MOST_LINE_BYTES = 16 * 1024 * 1024;
/** Servers may chat on stdout by mistake, a little. */
const MOST_NOISE = 1000;

export class MessageLines {
  #pending: Buffer[] = [];
  #pendingBytes = 0;
  #noise = 0;

  /** Throws where the server does not speak MCP. */
  push(chunk: Buffer): JSONRPCMessage[] {
    const messages: JSONRPCMessage[] = [];
    let from = 0;
    for (let end = chunk.indexOf(10); end >= 0; end = chunk.indexOf(10, from)) {
      const line = Buffer.concat([...this.#pending, chunk.subarray(from, end)])
        .toString()
        .trim();
      this.#pending = [];
      this.#pendingBytes = 0;
      from = end + 1;
      if (line !== '') messages.push(...this.#read(line));
    }
    const rest = chunk.subarray(from);
    this.#pending.push(rest);
    this.#pendingBytes += rest.length;
    if (this.#pendingBytes > MOST_LINE_BYTES) {
      throw new Error(`it wrote a message of more than ${MOST_LINE_BYTES / 1024 / 1024} MB`);
    }
    return messages;
  }

  #read(line: string): JSONRPCMessage[] {
    try {
      if (line.startsWith('{')) return [deserializeMessage(line)];
    } catch {
      // Counted as what it is: a line that is no message.
    }
    this.#noise++;
    if (this.#noise > MOST_NOISE) {
      throw new Error(`it wrote lines to stdout that are no messages: ${JSON.stringify(line.slice(0, 80))}`);
    }
    return [];
  }
}
