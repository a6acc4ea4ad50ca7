/** All sessions of a server: their definitions in storage, and those that are in use, with their kernels in one pool. */

import { CellaError } from '../../protocol/errors.ts';
import type {
  NewFork,
  NewSession,
  SessionChange,
  SessionInfo,
  SessionPage,
  SessionQuery,
} from '../../protocol/http/sessions.ts';
import type { AgentInfo } from '../../session/api.ts';
import type { OpenedNamespaces } from '../../session/open-namespaces.ts';
import { KernelPool } from '../../session/pool.ts';
import { noSession } from '../access/rights.ts';
import { Rules } from '../permissions/rules.ts';
import { stopping } from '../stopping.ts';
import { agentsOf } from './agents.ts';
import type * as contract from './contract.ts';
import { type Counters, newCounters } from './counters.ts';
import { changed, checkSame, type Definition, newDefinition } from './definition.ts';
import { Definitions } from './definitions.ts';
import { eraseSession } from './erase.ts';
import { checkHostOptions, type HostOptions } from './host-options.ts';
import { HostedSession } from './hosted-session.ts';
import { isLocal, storageKeyOf } from './ids.ts';
import { Listing } from './listing.ts';
import { isTaken } from './ownership.ts';
import { withRealFolders } from './real-folders.ts';
import type { HostShare } from './share.ts';
import { Sweeper } from './sweeper.ts';
import { thingsOf } from './things.ts';

/** How long a kernel has to tell what memory it takes. */
const MEASURE_MS = 1_000;

export class LocalSessionHost implements contract.SessionHost {
  readonly #share: HostShare;
  readonly #definitions: Definitions;
  readonly #open = new Map<string, Promise<HostedSession>>();
  /** Those that are being deleted: whoever deletes one again waits for the same. */
  readonly #deleting = new Map<string, Promise<void>>();
  /** Those that were asked for before the server began to end: it waits for them. */
  readonly #making = new Set<Promise<unknown>>();
  readonly #counters: Counters = newCounters();
  readonly #sweeper: Sweeper;
  readonly #listing: Listing;
  #stopping = false;
  #closing: Promise<void> | undefined;

  private constructor(options: HostOptions) {
    const { storage, dataDir, session: given, pool, idleTtlMs, elsewhere, ...limits } = checkHostOptions(options);
    const session = { ...given, folderLinks: 'refused' } as const;
    this.#share = {
      storage,
      dataDir,
      session,
      ...limits,
      idleTtlMs,
      // Kernels are put to sleep here, where it is known what still goes on.
      pool: new KernelPool({ ...pool, idleTtlMs: 0, reservedKeys: true, session: { ...session, dataDir, storage } }),
      counters: this.#counters,
      stopping: () => this.#stopping,
      current: (definition) => this.#definitions.again(definition),
      hooksOf: (id) => ({
        approve: async (request) => await (await this.#opened(id)).permissions.ask(request),
        onProgress: (text) =>
          void this.#opened(id)
            .then((hosted) => hosted.tellProgress(text))
            .catch(() => {}), // it is being deleted
      }),
      fork: async (id, wanted) => {
        const { ownerId } = await this.#definitions.get(id);
        return await this.#opened((await this.fork(id, ownerId, wanted)).id);
      },
      delete: (id) => this.delete(id),
      forsaken: (session) => void this.#forsake(session),
    };
    this.#definitions = new Definitions(storage.documents);
    this.#listing = new Listing(this.#definitions, this.#open, elsewhere);
    this.#sweeper = new Sweeper(this.#share, this.#definitions, this.#open);
  }

  /** Finishes what the server before this one has left half done. */
  static async open(options: HostOptions): Promise<LocalSessionHost> {
    const host = new LocalSessionHost(options);
    for await (const definition of host.#definitions.all()) {
      if (definition.life === 'present') continue;
      await host.#erase(definition).catch((error) => {
        // Another one is at it.
        if (!isTaken(error)) throw error;
      });
    }
    await host.#sweeper.clear();
    host.#sweeper.begin();
    return host;
  }

  create(ownerId: string, wanted: NewSession): Promise<{ session: SessionInfo; created: boolean }> {
    return this.#make(() => this.#create(ownerId, wanted));
  }

  async #create(ownerId: string, wanted: NewSession): Promise<{ session: SessionInfo; created: boolean }> {
    const definition = newDefinition(ownerId, withRealFolders(wanted));
    for (;;) {
      const there = await this.#definitions.add(definition);
      if (!there) {
        const hosted = await this.#opened(definition.id);
        await hosted.note('created', { by: ownerId });
        return { session: await hosted.info(), created: true };
      }
      if (there.life === 'present') {
        checkSame(there, definition, wanted);
        return { session: await this.get(there.id), created: false };
      }
      // It is on its way out.
      await this.#erase(there);
    }
  }

  list(query: SessionQuery, visible?: (session: SessionInfo) => boolean): Promise<SessionPage> {
    return this.#listing.list(query, visible);
  }

  async get(id: string): Promise<SessionInfo> {
    return await this.#listing.describe(await this.#definitions.get(id));
  }

  async find(ownerId: string, agentKey: string): Promise<SessionInfo | undefined> {
    const definition = await this.#definitions.find(ownerId, agentKey);
    return definition && (await this.#listing.describe(definition));
  }

  async update(id: string, change: SessionChange, { by }: { readonly by?: string } = {}): Promise<SessionInfo> {
    this.#checkRunning();
    const hosted = await this.#opened(id);
    const apply = (there: Definition) => {
      if (there.life !== 'present') throw noSession(id);
      return changed(there, change);
    };
    const definition = await this.#definitions.update(id, apply, hosted.storage.documents);
    hosted.redefine(definition);
    await hosted.note('updated', { by });
    return await hosted.info();
  }

  async delete(id: string): Promise<void> {
    const { definition, storage } = await this.#opened(id);
    await this.#checkUnshared(definition);
    await this.#definitions.update(id, (there) => ({ ...there, life: 'deleting' }), storage.documents);
    await this.#erase(definition);
  }

  fork(id: string, ownerId: string, wanted: NewFork): Promise<SessionInfo> {
    return this.#make(() => this.#fork(id, ownerId, wanted));
  }

  async #fork(id: string, ownerId: string, wanted: NewFork): Promise<SessionInfo> {
    const parent = await this.#opened(id);
    const { from, replace = false, ...facts } = wanted;
    const { settings } = parent.definition;
    // Until the kernel is there, a server that starts would take it away again.
    const definition: Definition = { ...newDefinition(ownerId, { ...settings, ...facts }), life: 'making', forkOf: id };
    for (let there = await this.#definitions.add(definition); there; there = await this.#definitions.add(definition)) {
      if (!replace || there.id === id) throw conflict(there);
      await (there.life === 'present' ? this.delete(there.id) : this.#erase(there));
    }
    try {
      const hosted = await this.#enter(definition);
      await parent.branch(hosted, from);
      const { documents } = hosted.storage;
      hosted.redefine(await this.#definitions.update(hosted.id, (made) => ({ ...made, life: 'present' }), documents));
      await hosted.session();
      await hosted.note('created', { subject: id, by: ownerId });
      await parent.note('forked', { subject: hosted.id, by: ownerId });
      return await hosted.info();
    } catch (error) {
      await this.#erase(definition);
      throw error;
    }
  }

  async forget(ownerId: string): Promise<void> {
    if (isLocal(ownerId)) return;
    await this.rulesOf(ownerId).deleteAll();
    await this.#share.storage.deleteScope(ownerId);
  }

  rulesOf(user: string): Rules {
    return new Rules(this.#share.storage.documents, { user });
  }

  async open(id: string): Promise<HostedSession> {
    // While the server ends, what runs may still be answered, interrupted and followed.
    if (!this.#open.has(id)) this.#checkRunning();
    return await this.#opened(id);
  }

  async things(ownerId: string, sessionId = ''): Promise<OpenedNamespaces> {
    const hosted = await this.#open.get(sessionId)?.catch(() => undefined); // as if nobody had opened it
    return hosted?.things ?? (await thingsOf(this.#share, ownerId));
  }

  async holderOf({ id, ownerId, agentKey }: SessionInfo): Promise<string | undefined> {
    if (this.#open.has(id)) return undefined;
    const { locks } = this.#share.storage;
    const holder = await locks.holder(storageKeyOf(ownerId, agentKey));
    return holder?.id === locks.id ? undefined : holder?.id;
  }

  async live(): Promise<Record<string, 'idle' | 'running'>> {
    const states = (await this.#hosted()).map(({ id, state }) => [id, state] as const);
    return Object.fromEntries(states.flatMap(([id, state]) => (state === 'hibernated' ? [] : [[id, state]])));
  }

  async drain(graceMs: number): Promise<void> {
    this.#stopping = true;
    const hosted = await this.#hosted();
    const { promise: late, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, graceMs);
    await Promise.race([late, Promise.allSettled([...hosted.map((one) => one.idle()), ...this.#making])]);
    clearTimeout(timer);
    await this.#close();
  }

  async metrics(): Promise<contract.HostMetrics> {
    const { executions, turns, onEnded: _, ...counters } = this.#counters;
    return { pool: await this.#share.pool.metrics(), executions: { ...executions }, turns: { ...turns }, ...counters };
  }

  kernelMemory(): Promise<number> {
    return this.#share.pool.memory(MEASURE_MS);
  }

  onEnded(told: (ending: string, ms: number) => void): void {
    this.#counters.onEnded = told;
  }

  close(): Promise<void> {
    return this.drain(0);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async agents(ownerId: string): Promise<readonly AgentInfo[]> {
    return await agentsOf(this.#share, ownerId, await this.#hosted());
  }

  async refreshPackages(ownerId: string): Promise<void> {
    const mine = (await this.#hosted()).filter(({ definition }) => definition.ownerId === ownerId);
    await Promise.all(mine.map((hosted) => hosted.refreshPackages().catch(() => {}))); // the next kernel has them
  }

  async #opened(id: string): Promise<HostedSession> {
    const definition = this.#open.has(id) ? undefined : await this.#definitions.get(id);
    const known = this.#open.get(id);
    if (known || !definition) return await (known ?? this.#opened(id));
    return await this.#enter(definition);
  }

  async #enter(definition: Definition): Promise<HostedSession> {
    // Nobody would close what is opened after the others are closed.
    if (this.#closing) throw stopping();
    const { id } = definition;
    const opening = HostedSession.open(this.#share, definition);
    this.#open.set(id, opening);
    opening.catch(() => this.#open.delete(id)); // told to those who wait for it
    return await opening;
  }

  /** Another server has it: whoever asks for it is led there. */
  async #forsake(session: HostedSession): Promise<void> {
    const known = this.#open.get(session.id);
    const current = await known?.catch(() => undefined); // it is not the one
    if (current === session && this.#open.get(session.id) === known) this.#open.delete(session.id);
  }

  async #hosted(): Promise<HostedSession[]> {
    const all = await Promise.allSettled(this.#open.values());
    return all.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
  }

  /** Forks share the workspace: it goes with the last of them. */
  async #checkUnshared({ id }: Definition): Promise<void> {
    const forks: string[] = [];
    for await (const { forkOf, life, id: fork } of this.#definitions.all()) {
      if (forkOf === id && life === 'present') forks.push(fork);
    }
    if (forks.length === 0) return;
    const message = `Forks work in the workspace of session ${id}: ${forks.join(', ')}.`;
    const advice = 'Delete the forks first.';
    throw new CellaError('SESSION_CONFLICT', message, { details: { session: id, forks }, advice });
  }

  #erase(definition: Definition): Promise<void> {
    const { id } = definition;
    const known = this.#deleting.get(id);
    if (known) return known;
    const erasing = this.#erased(definition).finally(() => this.#deleting.delete(id));
    this.#deleting.set(id, erasing);
    return erasing;
  }

  async #erased(definition: Definition): Promise<void> {
    const hosted = await this.#open.get(definition.id)?.catch(() => undefined); // it could not be opened
    await hosted?.destroy();
    this.#open.delete(definition.id);
    await eraseSession(this.#share, definition);
    await this.#share.agents?.forget(definition.id);
    await this.#definitions.remove(definition);
  }

  async #close(): Promise<void> {
    this.#closing ??= this.#closeAll();
    await this.#closing;
  }

  async #closeAll(): Promise<void> {
    await this.#sweeper.end();
    const outcomes = await Promise.allSettled((await this.#hosted()).map((one) => one.close()));
    await this.#share.pool.shutdown();
    // What could not be made is taken away again while there is a storage.
    await Promise.allSettled([...this.#making, ...this.#deleting.values()]);
    const failed = outcomes.find((outcome) => outcome.status === 'rejected');
    if (failed) throw failed.reason;
  }

  async #make<T>(work: () => Promise<T>): Promise<T> {
    this.#checkRunning();
    const making = work();
    this.#making.add(making);
    try {
      return await making;
    } catch (error) {
      // It was closed under whoever made it.
      throw this.#closing && error instanceof CellaError && error.code === 'SESSION_CLOSED' ? stopping() : error;
    } finally {
      this.#making.delete(making);
    }
  }

  #checkRunning(): void {
    if (this.#stopping) throw stopping();
  }
}

function conflict({ id, agentKey }: Definition): CellaError {
  const message = `There is a session for the key ${JSON.stringify(agentKey)} already.`;
  return new CellaError('SESSION_CONFLICT', message, { details: { session: id } });
}
