/** What all clients of one server share: sessions by agent key, opened when first used, and the things in storage. */

import { CellaError } from '../protocol/errors.ts';
import type { Approval, ApprovalRequest, NamespacesApi, SessionApi } from '../session/api.ts';
import { KernelPool } from '../session/kernel-pool.ts';
import { type OpenedNamespaces, openNamespaces } from '../session/session-namespaces.ts';
import type { SessionOptions } from '../session/session-options.ts';
import type { Storage } from '../storage/contract.ts';
import { Desk } from './desk.ts';
import type { Log } from './failure.ts';
import type { Shop } from './shop.ts';
import { Suspended } from './suspended.ts';

/** Kernels that live at a time; idle ones sleep when another key needs the place. */
const MOST_KERNELS = 16;

export interface WorkshopOptions {
  /** Of calls that name no key. */
  readonly agentKey: string;
  /** Of code that names no limit. */
  readonly timeoutMs: number;
  readonly session: Omit<SessionOptions, 'agentKey' | 'storage' | 'approve' | 'onProgress' | 'spares'> & {
    readonly dataDir: string;
  };
  /** In place of the files in the data folder, where it gives one. Asked again after it has failed. */
  readonly storage: () => Promise<Storage | undefined>;
  /** Where sessions live in another process: they are opened there, and none here. */
  readonly elsewhere?: Elsewhere | undefined;
  readonly log: Log;
}

export interface Elsewhere {
  session(agentKey: string, hooks: Hooks): Promise<SessionApi>;
  namespaces(agentKey: string): Promise<NamespacesApi & AsyncDisposable>;
}

export interface Hooks {
  /** Undefined leaves the answer to others who use the session. */
  readonly approve: (request: ApprovalRequest) => Promise<Approval | undefined>;
  readonly onProgress: (text: string) => void;
}

export class Workshop implements Shop, AsyncDisposable {
  readonly options: WorkshopOptions;
  readonly suspended = new Suspended();
  readonly #desks = new Map<string, Desk>();
  /** Those that live elsewhere. */
  readonly #sessions = new Map<string, Promise<SessionApi>>();
  #pool: Promise<KernelPool> | undefined;
  #namespaces: Promise<OpenedNamespaces> | undefined;
  #closing: Promise<void> | undefined;

  constructor(options: WorkshopOptions) {
    this.options = options;
  }

  /** Whether packages can be changed. */
  get open(): boolean {
    return this.options.session.allowRuntimeDeps !== false;
  }

  get inProcess(): boolean {
    return this.options.session.executor === 'in-process';
  }

  desk(agentKey = this.options.agentKey): Desk {
    const known = this.#desks.get(agentKey);
    if (known) return known;
    const desk: Desk = new Desk({
      acquire: (signal) => this.session(agentKey, signal),
      release: () => this.release(agentKey),
      log: this.options.log,
    });
    this.#desks.set(agentKey, desk);
    return desk;
  }

  async session(agentKey = this.options.agentKey, signal?: AbortSignal): Promise<SessionApi> {
    this.#checkOpen();
    const desk = this.desk(agentKey);
    const hooks = { approve: desk.approve, onProgress: (text: string) => desk.tell(text) };
    const { elsewhere } = this.options;
    if (elsewhere) {
      const approve: Hooks['approve'] = async (request) => (desk.canAsk ? await desk.approve(request) : undefined);
      return await this.#openElsewhere(elsewhere, agentKey, { ...hooks, approve });
    }
    const pool = await this.#openPool();
    return await pool.acquire(agentKey, hooks, signal === undefined ? {} : { signal });
  }

  /** From here on the kernel may sleep when it is idle for long. */
  release(agentKey = this.options.agentKey): void {
    this.#pool?.then((pool) => pool.release(agentKey)).catch(() => {}); // told to whoever asked for it
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
    await Promise.all([...this.#desks.values()].map((desk) => desk.close()));
    const opened = [
      ...[...this.#sessions.values()].map(async (session) => await (await session).close()),
      this.#pool?.then((pool) => pool.shutdown()),
      this.#namespaces?.then((all) => all[Symbol.asyncDispose]()),
    ];
    for (const outcome of await Promise.allSettled(opened)) {
      if (outcome.status === 'rejected') this.options.log(`at the end: ${outcome.reason}`);
    }
  }

  #openElsewhere({ session }: Elsewhere, agentKey: string, hooks: Hooks): Promise<SessionApi> {
    const opening = this.#sessions.get(agentKey) ?? session(agentKey, hooks);
    this.#sessions.set(agentKey, opening);
    opening.catch(() => this.#sessions.delete(agentKey)); // told to whoever asked for it, who may ask again
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
      maxKernels: MOST_KERNELS,
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
