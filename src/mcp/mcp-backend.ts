/** The sessions and namespaces behind an MCP server: the `McpBackend` port, and the one that opens sessions by agent key. */

import { CellaError } from '../protocol/errors.ts';
import type { Approval, ApprovalRequest, NamespacesApi, SessionApi } from '../session/api.ts';
import { KernelPool } from '../session/kernel-pool.ts';
import { type OpenedNamespaces, openNamespaces } from '../session/session-namespaces.ts';
import type { SessionOptions } from '../session/session-options.ts';
import type { Storage } from '../storage/contract.ts';
import type { LogLine } from './execution-result.ts';
import { ExecutionsAwaitingAnswer, McpExecutionQueue } from './mcp-executions.ts';

/** What an MCP server works with. */
export interface McpBackend {
  readonly options: {
    /** Of code that names no limit. */
    readonly timeoutMs: number;
    readonly log: LogLine;
  };
  readonly pending: ExecutionsAwaitingAnswer;
  /** Whether packages can be changed. */
  readonly canChangeDeps: boolean;
  /** Whether the code runs in WebAssembly, without isolation. */
  readonly isWasm: boolean;
  queue(agentKey?: string): McpExecutionQueue;
  session(agentKey?: string, signal?: AbortSignal): Promise<SessionApi>;
  /** The kernel may hibernate once it is idle. */
  release(agentKey?: string): void;
  /** Tools, skills, artifacts and deps. */
  namespaces(): Promise<NamespacesApi>;
}

/** Live kernels; idle ones hibernate when another key needs a slot. */
const MAX_KERNELS = 16;

export interface PooledMcpBackendOptions {
  /** Of calls that name no key. */
  readonly agentKey: string;
  /** Of code that names no limit. */
  readonly timeoutMs: number;
  readonly session: Omit<SessionOptions, 'agentKey' | 'storage' | 'approve' | 'onProgress' | 'spares'> & {
    readonly dataDir: string;
  };
  /** In place of the files in the data folder, where it gives one. Asked again after it has failed. */
  readonly storage: () => Promise<Storage | undefined>;
  /** Set if sessions run in another process: they are opened there, and none here. */
  readonly elsewhere?: RemoteSessions | undefined;
  readonly log: LogLine;
}

interface RemoteSessions {
  session(agentKey: string, hooks: McpSessionHooks): Promise<SessionApi>;
  namespaces(agentKey: string): Promise<NamespacesApi & AsyncDisposable>;
}

export interface McpSessionHooks {
  /** Undefined leaves the answer to others who use the session. */
  readonly approve: (request: ApprovalRequest) => Promise<Approval | undefined>;
  readonly onProgress: (text: string) => void;
}

/** Shared by all clients of one MCP server. Sessions are opened by agent key on first use. */
export class PooledMcpBackend implements McpBackend, AsyncDisposable {
  readonly options: PooledMcpBackendOptions;
  readonly pending = new ExecutionsAwaitingAnswer();
  readonly #queues = new Map<string, McpExecutionQueue>();
  /** Those that live elsewhere. */
  readonly #sessions = new Map<string, Promise<SessionApi>>();
  #pool: Promise<KernelPool> | undefined;
  #namespaces: Promise<OpenedNamespaces> | undefined;
  #closing: Promise<void> | undefined;

  constructor(options: PooledMcpBackendOptions) {
    this.options = options;
  }

  /** Whether packages can be changed. */
  get canChangeDeps(): boolean {
    return this.options.session.allowRuntimeDeps !== false;
  }

  get isWasm(): boolean {
    return this.options.session.executor === 'in-process';
  }

  queue(agentKey = this.options.agentKey): McpExecutionQueue {
    const known = this.#queues.get(agentKey);
    if (known) return known;
    const queue: McpExecutionQueue = new McpExecutionQueue({
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

  /** Tools, skills, artifacts and deps, whether or not a kernel can start. */
  namespaces(): Promise<OpenedNamespaces> {
    this.#checkOpen();
    this.#namespaces ??= this.#openNamespaces().catch((error) => {
      this.#namespaces = undefined;
      throw error;
    });
    return this.#namespaces;
  }

  /** Interrupts what runs, saves and closes every session. */
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

  async #openNamespaces(): Promise<OpenedNamespaces> {
    const { elsewhere, agentKey } = this.options;
    if (elsewhere) return await elsewhere.namespaces(agentKey);
    const { dataDir, python, packages, toolFolders, executor, image, engine } = this.options.session;
    const storage = await this.options.storage();
    const place = { executor, image, engine };
    return await openNamespaces({ dataDir, python, packages, toolFolders, storage, ...place });
  }

  #checkOpen(): void {
    if (this.#closing) throw new CellaError('SESSION_CLOSED', 'The MCP server is ending.');
  }
}
