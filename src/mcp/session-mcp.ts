/** One session of a server as its own MCP endpoint over HTTP. */

import { createMcpHandler, isLegacyRequest } from '@modelcontextprotocol/server';
import { CellaError } from '../protocol/errors.ts';
import type { NamespacesApi, SessionApi } from '../session/api.ts';
import type { LogLine } from './execution-result.ts';
import type { McpBackend } from './mcp-backend.ts';
import { type CallLimits, ExecutionsAwaitingAnswer, McpExecutions } from './mcp-executions.ts';
import { createMcpServer, LegacyConnections } from './mcp-server.ts';

export interface SessionMcpOptions {
  readonly agentKey: string;
  readonly api: () => Promise<SessionApi>;
  /** Like `api`, for running code: the call counts against limits. */
  readonly toRun: () => Promise<SessionApi>;
  readonly limits: CallLimits;
  /** Whether packages can be changed. */
  readonly open: boolean;
  /** Whether the code runs in WebAssembly, without isolation. */
  readonly inProcess: boolean;
  readonly version: string;
  readonly log: LogLine;
}

/** One request of a client, whose body has been read and parsed. */
export interface McpRequest {
  /** Without its body. */
  readonly request: Request;
  /** The parsed body; undefined if there is none. */
  readonly message: unknown;
  readonly userId: string;
}

export interface SessionMcp {
  answer(request: McpRequest): Promise<Response>;
  close(): Promise<void>;
}

const DEFAULT_TIMEOUT_MS = 300_000;

export function openSessionMcp(parts: SessionMcpOptions): SessionMcp {
  const { version, limits, log } = parts;
  const backend = new SessionMcpBackend(parts);
  const onerror = (error: Error) => log(`protocol: ${error.message}`);
  const modern = createMcpHandler(({ era }) => createMcpServer(backend, { era, version }), {
    legacy: 'reject',
    responseMode: 'sse',
    onerror,
  });
  const connections = new LegacyConnections(() => createMcpServer(backend, { era: 'legacy', version }), limits.connect);
  return {
    answer: async ({ request, message, userId }) => {
      const options = { parsedBody: message, authInfo: { token: '', clientId: userId, scopes: [] } };
      const isLegacy = await isLegacyRequest(request, message);
      return isLegacy ? await connections.handle(request, options) : await modern.fetch(request, options);
    },
    close: async () => {
      await backend.close();
      await Promise.all([modern.close(), connections.close()]);
    },
  };
}

class SessionMcpBackend implements McpBackend {
  readonly options: McpBackend['options'];
  readonly limits: CallLimits;
  readonly pending: ExecutionsAwaitingAnswer;
  readonly canChangeDeps: boolean;
  readonly inProcess: boolean;
  readonly #parts: SessionMcpOptions;
  readonly #queue: McpExecutions;

  constructor(parts: SessionMcpOptions) {
    this.#parts = parts;
    this.limits = parts.limits;
    this.pending = new ExecutionsAwaitingAnswer(parts.limits);
    this.canChangeDeps = parts.open;
    this.inProcess = parts.inProcess;
    this.options = { timeoutMs: DEFAULT_TIMEOUT_MS, log: parts.log };
    this.#queue = new McpExecutions({ acquire: () => parts.toRun(), release: () => {}, log: parts.log });
  }

  queue(agentKey?: string): McpExecutions {
    this.#checkKey(agentKey);
    return this.#queue;
  }

  async session(agentKey?: string): Promise<SessionApi> {
    this.#checkKey(agentKey);
    return await this.#parts.api();
  }

  release(): void {
    // The host of the session tracks when it is idle.
  }

  async namespaces(): Promise<NamespacesApi> {
    return await this.#parts.api();
  }

  async close(): Promise<void> {
    await this.#queue.close();
  }

  #checkKey(agentKey: string | undefined): void {
    if (agentKey === undefined || agentKey === this.#parts.agentKey) return;
    const message = `This is the session of ${JSON.stringify(this.#parts.agentKey)}; leave agent_key out.`;
    throw new CellaError('INVALID_REQUEST', message);
  }
}
