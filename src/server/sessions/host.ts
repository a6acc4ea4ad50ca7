/** All sessions of a server: their definitions in storage, and those that are in use, with their kernels in one pool. */

import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { removeDiscarded } from '../../environments/files/remove-tree.ts';
import { CellaError } from '../../protocol/errors.ts';
import type {
  NewFork,
  NewSession,
  SessionChange,
  SessionInfo,
  SessionPage,
  SessionQuery,
} from '../../protocol/session-info.ts';
import type { AgentInfo } from '../../session/api.ts';
import { KernelPool } from '../../session/kernel-pool.ts';
import type { OpenedNamespaces } from '../../session/session-namespaces.ts';
import { noSession } from '../access/rights.ts';
import { Rules } from '../permissions/rules.ts';
import { stopping } from '../stopping.ts';
import { agentsOf } from './agents.ts';
import type * as contract from './contract.ts';
import { type Counters, newCounters } from './counters.ts';
import { type Created, Creations } from './creations.ts';
import { changed, type Definition } from './definition.ts';
import { Definitions } from './definitions.ts';
import { Deletions } from './deletions.ts';
import { checkHostOptions, type HostOptions } from './host-options.ts';
import type { HostedSession } from './hosted-session.ts';
import { isLocal, storageKeyOf } from './ids.ts';
import { Listing } from './listing.ts';
import { OpenSessions } from './open-sessions.ts';
import { recordFolders } from './real-folders.ts';
import type { HostShare } from './share.ts';
import { Sweeper } from './sweeper.ts';
import { Things } from './things.ts';

/** How long a kernel has to tell what memory it takes. */
const MEASURE_MS = 1_000;
/** After something that was left could not be cleared. */
const CLEAR_AGAIN_MS = 60_000;
/** Whoever closes a host does not wait longer for what is being cleared. */
const LONGEST_CLEARING_MS = 5_000;
/** Of sessions that could not be saved, in a message. */
const MOST_NAMED = 10;

export class LocalSessionHost implements AsyncDisposable {
  readonly #share: HostShare;
  readonly #definitions: Definitions;
  readonly #open: OpenSessions;
  readonly #deletions: Deletions;
  readonly #creations: Creations;
  readonly #counters: Counters = newCounters();
  readonly #sweeper: Sweeper;
  readonly #listing: Listing;
  readonly #things: Things;
  #stopping = false;
  #closing: Promise<void> | undefined;
  #clearing: Promise<void> = Promise.resolve();
  #again: NodeJS.Timeout | undefined;

  private constructor(options: HostOptions) {
    const {
      admit,
      storage,
      dataDir,
      session: given,
      pool,
      idleTtlMs,
      elsewhere,
      refused,
      ...limits
    } = checkHostOptions(options);
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
      current: async (definition) => await this.#recorded(await this.#definitions.again(definition)),
      refused: ({ id, ownerId }, refusal) => refused?.({ ...refusal, userId: ownerId, session: id }),
      hooksOf: (definition) => ({
        approve: async (request) => await (await this.#open.get(definition.id)).permissions.ask(request),
        onProgress: (text) =>
          void this.#open
            .get(definition.id)
            .then((hosted) => hosted.tellProgress(text))
            .catch(() => {}), // it is being deleted
        admitCall: async () => (await this.#open.get(definition.id)).requireConfirmed(),
        onRefused: (refusal) => this.#share.refused(definition, refusal),
      }),
      fork: async (id, wanted) => {
        const { ownerId } = await this.#definitions.get(id);
        return await this.#creations.fork(id, ownerId, wanted);
      },
      delete: (id) => this.delete(id),
      forsaken: (session) => void this.#open.forsake(session),
    };
    this.#definitions = new Definitions(storage.documents);
    this.#open = new OpenSessions(this.#share, this.#definitions);
    this.#deletions = new Deletions(this.#share, this.#definitions, this.#open);
    this.#listing = new Listing(this.#definitions, this.#open, elsewhere);
    this.#things = new Things(this.#share);
    this.#sweeper = new Sweeper(this.#share, this.#definitions, this.#open);
    this.#creations = new Creations({
      definitions: this.#definitions,
      open: this.#open,
      deletions: this.#deletions,
      listing: this.#listing,
      admit,
      stopping: this.#share.stopping,
    });
  }

  /** Finishes what the server before this one has left half done. */
  static async open(options: HostOptions): Promise<LocalSessionHost> {
    const host = new LocalSessionHost(options);
    // In the background: nothing that code has left keeps a server from starting, or makes anybody wait.
    host.#clearing = host.#clear();
    host.#sweeper.begin();
    return host;
  }

  /** The one that the owner has under this key, where the options are the same; `SESSION_CONFLICT` where they are not. */
  create(ownerId: string, wanted: NewSession): Promise<Created> {
    return this.#creations.create(ownerId, wanted);
  }

  /**
   * Oldest first; those alone that `visible` allows. One call looks through a bounded number of sessions: a page may be
   * short, or empty, and `next` says where to go on. `viewer`: only those that may be visible to them are looked at.
   */
  list(
    query: SessionQuery,
    visible?: (session: SessionInfo) => boolean,
    viewer?: contract.Viewer,
  ): Promise<SessionPage> {
    return this.#listing.list(query, visible, viewer);
  }

  /** Of all users together. */
  count(): Promise<number> {
    return this.#definitions.count();
  }

  /** Those made from this one, and not from its forks. */
  forksOf(id: string): Promise<SessionInfo[]> {
    return this.#listing.forksOf(id);
  }

  /** Those of a user that are open on some server, and those that are named; their state says whether a kernel lives. */
  liveOf(ownerId: string, named?: Iterable<string>): Promise<SessionInfo[]> {
    return this.#listing.live(ownerId, named);
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
    const hosted = await this.#open.get(id);
    const apply = (there: Definition) => {
      if (there.life !== 'present') throw noSession(id);
      return changed(there, change);
    };
    await hosted.redefine(() => this.#definitions.update(id, apply, hosted.storage.documents));
    await hosted.note('updated', { by });
    return await hosted.info();
  }

  /** Ends what runs and deletes everything: kernel, workspace, events, checkpoints, files, and at last the session. */
  delete(id: string): Promise<void> {
    return this.#deletions.delete(id);
  }

  /** Another session of this owner with the same memory, in the same workspace. */
  async fork(id: string, ownerId: string, wanted: NewFork): Promise<SessionInfo> {
    return await (await this.#creations.fork(id, ownerId, wanted)).info();
  }

  /** From here on, the code of a fork of somebody else's session uses what is its owner's. Who may is checked before. */
  async confirm(id: string, { by }: { readonly by?: string } = {}): Promise<SessionInfo> {
    this.#checkRunning();
    const { unconfirmed } = await this.#definitions.get(id);
    const hosted = await this.#open.get(id);
    if (!unconfirmed) return await hosted.info();
    // It leaves the sandbox that it shares with its parent, whose code could do what it likes to its kernel there.
    await hosted.moveOut();
    const confirmed = ({ unconfirmed: _, ...there }: Definition): Definition => ({ ...there, updatedAt: Date.now() });
    await hosted.redefine(() => this.#definitions.update(id, confirmed, hosted.storage.documents));
    await hosted.refreshPackages().catch(() => {}); // it is confirmed: its kernels have them when it is opened again
    await hosted.note('confirmed', { by });
    return await hosted.info();
  }

  /** Deletes skills, artifacts and deps of a user whose sessions are gone. Those of `local` stay: they are the operator's. */
  async forget(ownerId: string): Promise<void> {
    if (isLocal(ownerId)) return;
    await this.rulesOf(ownerId).deleteAll();
    await this.#share.storage.deleteScope(ownerId);
  }

  /** What a user has allowed for good. */
  rulesOf(user: string): Rules {
    return new Rules(this.#share.storage.documents, { user });
  }

  async open(id: string): Promise<HostedSession> {
    // While the server ends, what runs may still be answered, interrupted and followed.
    if (!this.#open.has(id)) this.#checkRunning();
    return await this.#open.get(id);
  }

  /** Tools, skills, artifacts and packages of a user, to be looked at: by way of the session where it is in use. Wakes no kernel. */
  async things(ownerId: string, sessionId = ''): Promise<OpenedNamespaces> {
    const hosted = await this.#open.find(sessionId);
    return hosted?.things ?? (await this.#things.of(ownerId));
  }

  /** By the id of its locks: which other server has it. Undefined where this one has it, or nobody. */
  async holderOf({ id, ownerId, agentKey }: SessionInfo): Promise<string | undefined> {
    if (this.#open.has(id)) return undefined;
    const { locks } = this.#share.storage;
    const holder = await locks.holder(storageKeyOf(ownerId, agentKey));
    return holder?.id === locks.id ? undefined : holder?.id;
  }

  /** The sessions of this server that have a live kernel, and what it does. */
  async live(): Promise<Record<string, 'idle' | 'running'>> {
    const states = (await this.#open.all()).map(({ id, state }) => [id, state] as const);
    return Object.fromEntries(states.flatMap(([id, state]) => (state === 'hibernated' ? [] : [[id, state]])));
  }

  /**
   * No new work from here on (`DAEMON_STOPPING`); what runs has this long, and is interrupted then. Kernels are saved,
   * and every reader of events ends with `DAEMON_STOPPING`.
   */
  async drain(graceMs: number): Promise<void> {
    this.#stopping = true;
    const hosted = await this.#open.all();
    const { promise: late, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, graceMs);
    await Promise.race([late, Promise.allSettled([...hosted.map((one) => one.idle()), ...this.#creations.pending])]);
    clearTimeout(timer);
    await this.#close();
  }

  async metrics(): Promise<contract.HostMetrics> {
    const { executions, turns, onEnded: _, ...counters } = this.#counters;
    return { pool: await this.#share.pool.metrics(), executions: { ...executions }, turns: { ...turns }, ...counters };
  }

  /** Private memory of all live kernels, in bytes. Those that do not tell within a second are left out. */
  kernelMemory(): Promise<number> {
    return this.#share.pool.memory(MEASURE_MS);
  }

  /** Tells from here on how each execution ended, and how long it took since its turn came. */
  onEnded(told: (ending: string, ms: number) => void): void {
    this.#counters.onEnded = told;
  }

  /** As `drain(0)`. May be called again. */
  close(): Promise<void> {
    return this.drain(0);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Every agent of this owner, those without a session too. */
  async agents(ownerId: string): Promise<readonly AgentInfo[]> {
    return await agentsOf(this.#share, ownerId, await this.#open.all());
  }

  /** Has the live kernels of this owner find the packages as they are configured now. */
  async refreshPackages(ownerId: string): Promise<void> {
    const mine = (await this.#open.all()).filter(({ definition }) => definition.ownerId === ownerId);
    await Promise.all(mine.map((hosted) => hosted.refreshPackages().catch(() => {}))); // the next kernel has them
  }

  async #close(): Promise<void> {
    this.#closing ??= this.#closeAll();
    await this.#closing;
  }

  async #closeAll(): Promise<void> {
    this.#open.shut();
    clearTimeout(this.#again);
    await Promise.race([this.#clearing, delay(LONGEST_CLEARING_MS, undefined, { ref: false })]);
    await this.#sweeper.end();
    const hosted = await this.#open.all();
    const outcomes = await Promise.allSettled(hosted.map((one) => one.close()));
    await this.#things[Symbol.asyncDispose]();
    await this.#share.pool.shutdown();
    // What could not be made is taken away again while there is a storage.
    await Promise.allSettled([...this.#creations.pending, ...this.#deletions.pending]);
    const failed = hosted.filter((_one, at) => outcomes[at]?.status === 'rejected');
    const reason = outcomes.find((outcome) => outcome.status === 'rejected')?.reason;
    if (failed.length > 0) throw unsaved(failed, reason);
  }

  /** Tried again for as long as something fails. */
  async #clear(): Promise<void> {
    const { dataDir, onLeftover } = this.#share;
    const agents = join(dataDir, 'agents');
    const works = [
      () => this.#deletions.eraseLeft((id, error) => onLeftover(id, error)),
      () => this.#sweeper.clear(),
      () => removeDiscarded(agents, onLeftover),
    ];
    let failed = false;
    for (const work of works) {
      if (this.#stopping) return;
      await work().then(
        (left) => {
          failed ||= left === false;
        },
        (error) => {
          failed = true;
          onLeftover(agents, error);
        },
      );
    }
    if (!failed || this.#stopping) return;
    this.#again = setTimeout(() => {
      this.#clearing = this.#clear();
    }, CLEAR_AGAIN_MS).unref();
  }

  /** Sessions of earlier versions have no record of their folders: it is made when they are opened. */
  async #recorded(definition: Definition): Promise<Definition> {
    const { id, settings } = definition;
    if (definition.folderIds || (settings.cwd === undefined && typeof settings.sandbox !== 'object')) return definition;
    return await this.#definitions.update(id, (there) => ({ ...there, folderIds: recordFolders(settings) }));
  }

  #checkRunning(): void {
    if (this.#stopping) throw stopping();
  }
}

function unsaved(sessions: readonly HostedSession[], cause: unknown): CellaError {
  const named = sessions.slice(0, MOST_NAMED).map(({ id, definition }) => `${id} (${definition.agentKey})`);
  const more = sessions.length > MOST_NAMED ? [`${sessions.length - MOST_NAMED} more`] : [];
  const who = `${sessions.length === 1 ? 'Session' : 'Sessions'} ${[...named, ...more].join(', ')}`;
  const message = `${who} could not be saved: ${cause instanceof Error ? cause.message : String(cause)}`;
  const details = { sessions: sessions.map(({ id }) => id) };
  if (!(cause instanceof CellaError)) return new CellaError('INTERNAL', message, { cause, details });
  const { code, ownAdvice: advice } = cause;
  return new CellaError(code, message, { cause, details, ...(advice === undefined ? {} : { advice }) });
}
