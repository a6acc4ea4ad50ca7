/**
 * The sessions and namespaces behind an MCP server: the `McpBackend` port, and the adapter that opens sessions by agent key.
 */

import { CellaError } from '../protocol/errors.ts';
import type { Approval, ApprovalRequest } from '../protocol/permission.ts';
import type { SessionApi, UserNamespacesApi } from '../session/api.ts';
import { KernelPool } from '../session/kernel-pool.ts';
import { openNamespaces } from '../session/session-namespaces.ts';
import type { SessionOptions } from '../session/session-options.ts';
import type { Storage } from '../storage/contract.ts';
import type { LogLine } from './execution-result.ts';
import { type CallLimits, ExecutionsAwaitingAnswer, McpExecutions } from './mcp-executions.ts';

/** The backend of an MCP server. */
export interface McpBackend {
  readonly options: {
    /** The timeout of code that sets none. */
    readonly timeoutMs: number;
    readonly log: LogLine;
  };
  readonly limits: CallLimits;
  readonly pending: ExecutionsAwaitingAnswer;
  /** Whether packages can be changed. */
  readonly canChangeDeps: boolean;
  /** Whether the code runs in WebAssembly, without isolation. */
  readonly inProcess: boolean;
  queue(agentKey?: string): McpExecutions;
  session(agentKey?: string, signal?: AbortSignal): Promise<SessionApi>;
  /** The kernel may hibernate once it is idle. */
  release(agentKey?: string): void;
  /** Tools, skills, artifacts and deps. */
  namespaces(): Promise<UserNamespacesApi>;
}

/** Live kernels; idle ones hibernate when another key needs a slot. */
const MAX_KERNELS = 16;

export interface PooledMcpBackendOptions {
  /** The key of calls that name none. */
  readonly agentKey: string;
  /** The timeout of code that sets none. */
  readonly timeoutMs: number;
  readonly session: Omit<SessionOptions, 'agentKey' | 'storage' | 'approve' | 'onProgress' | 'spares'> & {
    readonly dataDir: string;
  };
  /** The storage in place of the data folder; undefined for the data folder. Called again after a failure. */
  readonly storage: () => Promise<Storage | undefined>;
  /** Set if sessions run in another process, which then opens all of them. */
  readonly elsewhere?: RemoteSessions | undefined;
  readonly log: LogLine;
}

interface RemoteSessions {
  session(agentKey: string, hooks: McpSessionHooks): Promise<SessionApi>;
  namespaces(): Promise<UserNamespacesApi & AsyncDisposable>;
}

interface McpSessionHooks {
  /** Returns undefined to leave the decision to other clients of the session. */
  readonly approve: (request: ApprovalRequest) => Promise<Approval | undefined>;
  readonly onProgress: (text: string) => void;
}

/** For a process of which the only user is its owner. */
const unlimited: CallLimits = {
  begin: () => new DisposableStack(),
  reserve: async () => new DisposableStack(),
  hold: () => new DisposableStack(),
  connect: () => ({ used: () => {}, [Symbol.dispose]: () => {} }),
};

/** Shared by all clients of one MCP server. Sessions are opened by agent key on first use. */
export class PooledMcpBackend implements McpBackend, AsyncDisposable {
  readonly options: PooledMcpBackendOptions;
  readonly limits = unlimited;
  readonly pending = new ExecutionsAwaitingAnswer(unlimited);
  readonly #queues = new Map<string, McpExecutions>();
  /** Sessions that run in another process. */
  readonly #sessions = new Map<string, Promise<SessionApi>>();
  #pool: Promise<KernelPool> | undefined;
  #namespaces: Promise<UserNamespacesApi & AsyncDisposable> | undefined;
  #closing: Promise<void> | undefined;

  constructor(options: PooledMcpBackendOptions) {
    this.options = options;
  }

  /** Whether packages can be changed. */
  get canChangeDeps(): boolean {
    return this.options.session.allowRuntimeDeps !== false;
  }

  get inProcess(): boolean {
    return this.options.session.executor === 'in-process';
  }

  queue(agentKey = this.options.agentKey): McpExecutions {
    const known = this.#queues.get(agentKey);
    if (known) return known;
    const queue: McpExecutions = new McpExecutions({
      acquire: (signal) => this.session(agentKey, signal),
      release: () => this.release(agentKey),
      log: this.options.log,
    });
    this.#queues.set(agentKey, queue);
    return queue;
  }

  async session(agentKey = this.options.agentKey, signal?: AbortSignal): Promise<SessionApi> {
    this.#checkOpen();
    const queue = this.queue(agentKey);
    const hooks = { approve: queue.approve, onProgress: (text: string) => queue.report(text) };
    const { elsewhere } = this.options;
    if (elsewhere) {
      const approve: McpSessionHooks['approve'] = async (request) =>
        queue.canElicit ? await queue.approve(request) : undefined;
      return await this.#openElsewhere(elsewhere, agentKey, { ...hooks, approve });
    }
    const pool = await this.#openPool();
    return await pool.acquire(agentKey, hooks, signal === undefined ? {} : { signal });
  }

  /** The kernel may hibernate once it is idle. */
  release(agentKey = this.options.agentKey): void {
    this.#pool?.then((pool) => pool.release(agentKey)).catch(() => {}); // the caller of `session` saw the error
  }

  /** Tools, skills, artifacts and deps; works even if no kernel can start. */
  namespaces(): Promise<UserNamespacesApi & AsyncDisposable> {
    this.#checkOpen();
    this.#namespaces ??= this.#openNamespaces().catch((error) => {
      this.#namespaces = undefined;
      throw error;
    });
    return this.#namespaces;
  }

  /** Interrupts running code, then saves and closes every session. */
  close(): Promise<void> {
    this.#closing ??= this.#end();
    return this.#closing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #end(): Promise<void> {
    await Promise.all([...this.#queues.values()].map((queue) => queue.close()));
    const opened = [
      ...[...this.#sessions.values()].map(async (session) => await (await session).close()),
      this.#pool?.then((pool) => pool.shutdown()),
      this.#namespaces?.then((all) => all[Symbol.asyncDispose]()),
    ];
    for (const outcome of await Promise.allSettled(opened)) {
      if (outcome.status === 'rejected') this.options.log(`at the end: ${outcome.reason}`);
    }
  }

  #openElsewhere({ session }: RemoteSessions, agentKey: string, hooks: McpSessionHooks): Promise<SessionApi> {
    const opening = this.#sessions.get(agentKey) ?? session(agentKey, hooks);
    this.#sessions.set(agentKey, opening);
    opening.catch(() => this.#sessions.delete(agentKey)); // the caller sees the error, and may try again
    return opening;
  }

  #openPool(): Promise<KernelPool> {
    this.#pool ??= this.#makePool().catch((error) => {
      this.#pool = undefined;
      throw error;
    });
    return this.#pool;
  }

  async #makePool(): Promise<KernelPool> {
    const storage = await this.options.storage();
    return new KernelPool({
      maxKernels: MAX_KERNELS,
      session: { ...this.options.session, ...(storage ? { storage } : {}) },
    });
  }

  async #openNamespaces(): Promise<UserNamespacesApi & AsyncDisposable> {
    const { elsewhere } = this.options;
    if (elsewhere) return await elsewhere.namespaces();
    const { dataDir, python, packages, toolFolders, executor, image, engine } = this.options.session;
    const storage = await this.options.storage();
    const containers = { executor, image, engine };
    return await openNamespaces({ dataDir, python, packages, toolFolders, storage, ...containers });
  }

  #checkOpen(): void {
    if (this.#closing) throw new CellaError('SESSION_CLOSED', 'The MCP server is shutting down.');
  }
}
