/** All sessions of a server: creates, opens, lists, updates and deletes them, and drains them at shutdown. */

import { join } from 'node:path';
import { removeDiscarded } from '../../environments/files/remove-tree.ts';
import { settlesWithin } from '../../lib/deadline.ts';
import { messageOf } from '../../lib/values.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { KernelInfo } from '../../protocol/kernel-state.ts';
import type {
  NewFork,
  NewSession,
  SessionChange,
  SessionInfo,
  SessionPage,
  SessionQuery,
  SessionSettings,
} from '../../protocol/session-info.ts';
import { checkFoldersAnswer } from '../../sandbox/named-folders.ts';
import { KernelPool } from '../../session/kernel-pool.ts';
import type { OpenedNamespaces } from '../../session/session-namespaces.ts';
import { sessionNotFound } from '../access/authorization.ts';
import { isLocalUser, storageKeyOf } from '../ids.ts';
import { PermissionRuleStore } from '../permissions/permission-rules.ts';
import { ByteLimit } from '../request-limits.ts';
import { drainingError } from '../server-control.ts';
import { OpenSessions } from './open-sessions.ts';
import { RetentionTimer } from './retention.ts';
import type { ServerSession } from './server-session.ts';
import { type CreatedSession, SessionCreation } from './session-creation.ts';
import { applyChange, recordFolders, type SessionDefinition, SessionDefinitions } from './session-definitions.ts';
import { SessionDeletion } from './session-deletion.ts';
import { listUserKernels, SessionListing } from './session-listing.ts';
import type * as contract from './session-types.ts';
import {
  allowsRuntimeDeps,
  type Counters,
  checkSessionManagerOptions,
  newCounters,
  type SessionManagerOptions,
  type SessionServices,
} from './session-types.ts';
import { UserNamespaces } from './user-namespaces.ts';

/** How long a kernel may take to report its memory. */
const MEASURE_MS = 1_000;
/** The pause before leftovers are cleared again. */
const CLEAR_RETRY_MS = 60_000;
/** How long `close` waits for the cleanup of leftovers. */
const LONGEST_CLEARING_MS = 5_000;
/** Sessions named in an error message. */
const MAX_NAMED = 10;

/** The limit of queued and running code and prompts of one user, in all sessions. */
const MOST_QUEUED_BYTES = 64 * 1024 * 1024;

export class SessionManager implements AsyncDisposable {
  readonly #services: SessionServices;
  readonly #definitions: SessionDefinitions;
  readonly #open: OpenSessions;
  readonly #deletions: SessionDeletion;
  readonly #creations: SessionCreation;
  readonly #counters: Counters = newCounters();
  readonly #retentionTimer: RetentionTimer;
  readonly #listing: SessionListing;
  readonly #namespaces: UserNamespaces;
  #draining = false;
  #closing: Promise<void> | undefined;
  #clearing: Promise<void> = Promise.resolve();
  #again: NodeJS.Timeout | undefined;

  private constructor(options: SessionManagerOptions) {
    const { admit, session: given, pool, idleMs, elsewhere, refused, ...shared } = checkSessionManagerOptions(options);
    const { storage, dataDir } = shared;
    const session = { ...given, folderLinks: 'refused' } as const;
    this.#services = {
      ...shared,
      session,
      pool: new KernelPool({ ...pool, idleMs, reservedKeys: true, session: { ...session, dataDir, storage } }),
      counters: this.#counters,
      queuedBytes: new ByteLimit(MOST_QUEUED_BYTES, 'Queued and running code and prompts'),
      draining: () => this.#draining,
      refetch: async (definition) => await this.#recorded(await this.#definitions.refetch(definition)),
      refused: ({ id, ownerId }, refusal) => refused?.({ ...refusal, userId: ownerId, session: id }),
      kernelHooks: (definition) => ({
        approve: async (request) => await (await this.#open.get(definition.id)).permissions.approveToolCall(request),
        onProgress: (text) =>
          void this.#open
            .get(definition.id)
            .then((session) => session.recordProgress(text))
            .catch(() => {}), // it is being deleted
        admitCall: async () => (await this.#open.get(definition.id)).requireConfirmed(),
        onRefused: (refusal) => this.#services.refused(definition, refusal),
      }),
      fork: async (id, wanted) => {
        const { ownerId } = await this.#definitions.get(id);
        return await this.#creations.fork(id, ownerId, wanted);
      },
      delete: (id) => this.delete(id),
      onOwnershipLost: (session) => void this.#open.removeLost(session),
    };
    this.#definitions = new SessionDefinitions(storage.documents);
    this.#open = new OpenSessions(this.#services, this.#definitions);
    this.#deletions = new SessionDeletion(this.#services, this.#definitions, this.#open);
    this.#listing = new SessionListing(this.#definitions, this.#open, elsewhere);
    this.#namespaces = new UserNamespaces(this.#services);
    this.#retentionTimer = new RetentionTimer(this.#services, this.#definitions, this.#open);
    this.#creations = new SessionCreation({
      definitions: this.#definitions,
      open: this.#open,
      deletions: this.#deletions,
      admit,
      draining: this.#services.draining,
    });
  }

  /** Finishes interrupted deletions of the previous server in the background. */
  static async open(options: SessionManagerOptions): Promise<SessionManager> {
    const manager = new SessionManager(options);
    // In the background: leftovers must not delay the start of the server.
    manager.#clearing = manager.#clearLeftovers();
    manager.#retentionTimer.start();
    return manager;
  }

  /** Returns the user's session of this key if it exists with the same options; throws `SESSION_CONFLICT` if they differ. */
  create(ownerId: string, wanted: NewSession): Promise<CreatedSession> {
    return this.#creations.create(ownerId, wanted);
  }

  /**
   * Oldest first, only those that `visible` allows. One call looks through a bounded number of sessions: a page may be
   * short or empty, and `next` says where to continue. `viewer`: only sessions that they may see are read.
   */
  list(
    query: SessionQuery,
    visible?: (session: SessionInfo) => boolean,
    viewer?: contract.Viewer,
  ): Promise<SessionPage> {
    return this.#listing.list(query, visible, viewer);
  }

  /** Of all users. */
  count(): Promise<number> {
    return this.#definitions.count();
  }

  /** Its direct forks. */
  forksOf(id: string): Promise<SessionInfo[]> {
    return this.#listing.forksOf(id);
  }

  /** The user's sessions that are open on any server, and the named ones. */
  liveOf(ownerId: string, named?: Iterable<string>): Promise<SessionInfo[]> {
    return this.#listing.live(ownerId, named);
  }

  async get(id: string): Promise<SessionInfo> {
    const session = this.#open.findCurrent(id);
    return session ? session.info() : await this.#open.describe(await this.#definitions.get(id));
  }

  async find(ownerId: string, agentKey: string): Promise<SessionInfo | undefined> {
    const definition = await this.#definitions.find(ownerId, agentKey);
    return definition && (await this.#open.describe(definition));
  }

  async update(id: string, change: SessionChange, { by }: { readonly by?: string } = {}): Promise<SessionInfo> {
    this.#checkRunning();
    const session = await this.#open.get(id);
    const apply = (there: SessionDefinition) => {
      if (there.life !== 'present') throw sessionNotFound(id);
      return applyChange(there, change);
    };
    await session.applyDefinition(() => this.#definitions.update(id, apply, session.storage.documents));
    await session.logStateChange('updated', { by });
    return session.info();
  }

  /** Ends running code and deletes everything: kernel, workspace, events, checkpoints, files, and last the definition. */
  delete(id: string): Promise<void> {
    return this.#deletions.delete(id);
  }

  /** Another session of this user with the same memory, in the same workspace. */
  async fork(id: string, ownerId: string, wanted: NewFork): Promise<SessionInfo> {
    return (await this.#creations.fork(id, ownerId, wanted)).info();
  }

  /** From now on, the code of a fork of another user's session may use what belongs to its own user. */
  async confirm(id: string, { by }: { readonly by?: string } = {}): Promise<SessionInfo> {
    this.#checkRunning();
    const { unconfirmed } = await this.#definitions.get(id);
    const session = await this.#open.get(id);
    if (!unconfirmed) return session.info();
    // The fork leaves the sandbox that it shares with its parent, whose code could otherwise change the fork's kernel.
    await session.leaveSharedEnvironment();
    const confirmed = ({ unconfirmed: _, ...there }: SessionDefinition): SessionDefinition => ({
      ...there,
      updatedAt: Date.now(),
    });
    await session.applyDefinition(() => this.#definitions.update(id, confirmed, session.storage.documents));
    await session.refreshPackages().catch(() => {}); // it is confirmed; its next kernel has them
    await session.logStateChange('confirmed', { by });
    return session.info();
  }

  /**
   * Deletes skills, artifacts and deps of a user whose sessions are deleted. Keeps those of `local`, which belong to the
   * operator.
   */
  async deleteUserData(ownerId: string): Promise<void> {
    if (isLocalUser(ownerId)) return;
    await this.rulesOf(ownerId).deleteAll();
    await this.#services.storage.deleteScope(ownerId);
  }

  /** The user's permanent permission rules. */
  rulesOf(user: string): PermissionRuleStore {
    return new PermissionRuleStore(this.#services.storage.documents, { user });
  }

  async open(id: string): Promise<ServerSession> {
    // During shutdown, running code can still be answered, interrupted and followed.
    if (!this.#open.has(id)) this.#checkRunning();
    return await this.#open.get(id);
  }

  /** Tools, skills, artifacts and packages of a user, through the session if it is open. Starts no kernel. */
  async namespaces(ownerId: string, sessionId = ''): Promise<OpenedNamespaces> {
    const session = await this.#open.find(sessionId);
    return session?.namespaces ?? (await this.#namespaces.of(ownerId));
  }

  /** The other server that owns it, by the id of its locks. Undefined if this server owns it, or none does. */
  async owningServer({ id, ownerId, agentKey }: SessionInfo): Promise<string | undefined> {
    if (this.#open.has(id)) return undefined;
    const { locks } = this.#services.storage;
    const owner = await locks.ownerOf(storageKeyOf(ownerId, agentKey));
    return owner?.id === locks.id ? undefined : owner?.id;
  }

  /** The sessions of this server with a live kernel, and its state. */
  async live(): Promise<Record<string, 'idle' | 'running'>> {
    const states = (await this.#open.all()).map(({ id, state }) => [id, state] as const);
    return Object.fromEntries(states.flatMap(([id, state]) => (state === 'hibernated' ? [] : [[id, state]])));
  }

  /**
   * Refuses new work with `SERVER_STOPPING`. Running code is interrupted after `graceMs`. Kernels are saved, and readers of
   * events end with `SERVER_STOPPING`.
   */
  async drain(graceMs: number): Promise<void> {
    this.#draining = true;
    const sessions = await this.#open.all();
    await settlesWithin(
      Promise.allSettled([...sessions.map((one) => one.idle()), ...this.#creations.pending]),
      graceMs,
    );
    await this.#close();
  }

  async metrics(): Promise<contract.SessionMetrics> {
    const { executions, turns, onEnded: _, ...counters } = this.#counters;
    return {
      pool: await this.#services.pool.metrics(),
      executions: { ...executions },
      turns: { ...turns },
      ...counters,
    };
  }

  /** Private memory of all live kernels, in bytes. Kernels that do not answer within a second are left out. */
  kernelMemory(): Promise<number> {
    return this.#services.pool.memory(MEASURE_MS);
  }

  /** From now on, calls back with how each execution ended, and how long it ran. */
  onEnded(callback: (ending: string, ms: number) => void): void {
    this.#counters.onEnded = callback;
  }

  /** Like `drain(0)`. Idempotent. */
  close(): Promise<void> {
    return this.drain(0);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** The kernels of this user, including those without a session. */
  async kernels(ownerId: string): Promise<readonly KernelInfo[]> {
    return await listUserKernels(this.#services, ownerId, await this.#open.all());
  }

  /** Whether packages may be added and removed: at this server, and in a session with these settings. */
  allowsRuntimeDeps({ allowRuntimeDeps }: Pick<SessionSettings, 'allowRuntimeDeps'> = {}): boolean {
    return allowsRuntimeDeps(this.#services, { allowRuntimeDeps });
  }

  /** Makes the live kernels of this user use the packages as they are configured now. */
  async refreshPackages(ownerId: string): Promise<void> {
    const mine = (await this.#open.all()).filter(({ definition }) => definition.ownerId === ownerId);
    await Promise.all(mine.map((session) => session.refreshPackages().catch(() => {}))); // the next kernel has them
  }

  async #close(): Promise<void> {
    this.#closing ??= this.#closeAll();
    await this.#closing;
  }

  async #closeAll(): Promise<void> {
    this.#open.stopOpening();
    clearTimeout(this.#again);
    await settlesWithin(this.#clearing, LONGEST_CLEARING_MS);
    await this.#retentionTimer.stop();
    const sessions = await this.#open.all();
    const outcomes = await Promise.allSettled(sessions.map((one) => one.close()));
    await this.#namespaces[Symbol.asyncDispose]();
    await this.#services.pool.shutdown();
    // Failed creations are removed while storage is still open.
    await Promise.allSettled([...this.#creations.pending, ...this.#deletions.pending]);
    const failed = sessions.filter((_one, at) => outcomes[at]?.status === 'rejected');
    const reason = outcomes.find((outcome) => outcome.status === 'rejected')?.reason;
    if (failed.length > 0) throw notSaved(failed, reason);
  }

  /** Tries again later if something fails. */
  async #clearLeftovers(): Promise<void> {
    const { dataDir, onLeftover } = this.#services;
    const agents = join(dataDir, 'agents');
    const works = [
      () => this.#deletions.finishInterrupted((id, error) => onLeftover(id, error)),
      () => this.#retentionTimer.removeOrphans(),
      () => removeDiscarded(agents, onLeftover),
    ];
    let failed = false;
    for (const work of works) {
      if (this.#draining) return;
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
    if (!failed || this.#draining) return;
    this.#again = setTimeout(() => {
      this.#clearing = this.#clearLeftovers();
    }, CLEAR_RETRY_MS).unref();
  }

  /** Sessions of earlier versions have no record of their folders: it is written when they are opened. */
  async #recorded(definition: SessionDefinition): Promise<SessionDefinition> {
    const { id, settings } = definition;
    if (definition.folderIds || (settings.cwd === undefined && typeof settings.sandbox !== 'object')) return definition;
    await checkFoldersAnswer(settings);
    return await this.#definitions.update(id, (there) => ({ ...there, folderIds: recordFolders(settings) }));
  }

  #checkRunning(): void {
    if (this.#draining) throw drainingError();
  }
}

function notSaved(sessions: readonly ServerSession[], cause: unknown): CellaError {
  const named = sessions.slice(0, MAX_NAMED).map(({ id, definition }) => `${id} (${definition.agentKey})`);
  const more = sessions.length > MAX_NAMED ? [`${sessions.length - MAX_NAMED} more`] : [];
  const who = `${sessions.length === 1 ? 'Session' : 'Sessions'} ${[...named, ...more].join(', ')}`;
  const message = `${who} could not be saved: ${messageOf(cause)}`;
  const details = { sessions: sessions.map(({ id }) => id) };
  if (!(cause instanceof CellaError)) return new CellaError('INTERNAL', message, { cause, details });
  const { code, ownAdvice: advice } = cause;
  return new CellaError(code, message, { cause, details, advice });
}
