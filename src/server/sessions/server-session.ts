/** One session of the server: its log, executions, kernel, turns and permissions, put together. */

import type { FilesRoot } from '../../environments/files/session-files.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { HistoryEntry, KernelInfo } from '../../protocol/kernel-state.ts';
import type { SessionEventBody, StreamItem } from '../../protocol/session-events.ts';
import type { NewFork, SessionInfo } from '../../protocol/session-info.ts';
import type { SessionApi } from '../../session/api.ts';
import { findWorkspace } from '../../session/data-folders.ts';
import type { Session } from '../../session/session.ts';
import type { OpenedNamespaces } from '../../session/session-namespaces.ts';
import type { Lock, Storage } from '../../storage/contract.ts';
import { readEvents } from '../events/event-stream.ts';
import { BackgroundEventRecorder } from '../events/execution-recorder.ts';
import { recoverLog } from '../events/log-recovery.ts';
import { OutputFiles } from '../events/output-files.ts';
import { SessionLog, type SessionLogParts } from '../events/session-log.ts';
import { storageKeyOf } from '../ids.ts';
import { SessionPermissions } from '../permissions/session-permissions.ts';
import type { RunnerSpec } from '../runners/runner-environment.ts';
import { drainingError } from '../server-control.ts';
import { SessionTurns } from '../turns/session-turns.ts';
import { IdempotencyStore } from './idempotency.ts';
import { KernelLease } from './kernel-lease.ts';
import { LoggedSession } from './logged-session.ts';
import { SessionTrimmer } from './retention.ts';
import type { ServerExecution } from './server-execution.ts';
import { CurrentDefinition, type SessionDefinition, toSessionInfo } from './session-definitions.ts';
import { acquireSession, SessionEnding } from './session-ending.ts';
import { SessionExecutions } from './session-executions.ts';
import type * as contract from './session-types.ts';
import type { SessionServices } from './session-types.ts';
import { userStorage } from './user-namespaces.ts';

type StateChange = Extract<SessionEventBody, { type: 'session_state' }>['change'];
interface StateFacts {
  readonly subject?: string | undefined;
  readonly by?: string | undefined;
}

export class ServerSession {
  readonly id: string;
  readonly storage: Storage;
  readonly #services: SessionServices;
  readonly #log: SessionLog;
  readonly #outputs: OutputFiles;
  readonly #lease: KernelLease;
  readonly #executions: SessionExecutions;
  readonly #background: BackgroundEventRecorder;
  readonly #trimmer: SessionTrimmer;
  readonly #ending: SessionEnding;
  /** The turns of its coding agent. */
  readonly turns: SessionTurns;
  /** Permission requests of its agent, and of tools that require approval. */
  readonly permissions: SessionPermissions;
  readonly #definition: CurrentDefinition;

  private constructor(whole: SessionServices, { definition, storage, lock, outputs, requests, makeLog }: OpenedParts) {
    const services = { ...whole, storage };
    this.id = definition.id;
    this.storage = storage;
    this.#services = services;
    const current = new CurrentDefinition(definition);
    this.#definition = current;
    this.#outputs = outputs;
    this.#log = makeLog({
      onFailure: (error) => this.#ending.abort(error),
      resultOf: (execution) => this.#executions.resultOf(execution),
    });
    this.#lease = new KernelLease({
      services,
      storage: userStorage(storage, definition.ownerId),
      definition: current,
      onSession: (session) => void this.#background.record(session),
      onHibernated: () => void this.logStateChange('hibernated').catch(() => {}), // the log counts what is lost
    });
    this.#executions = new SessionExecutions({
      services,
      log: this.#log,
      outputs,
      requests,
      lease: this.#lease,
      definition: current,
      ownerId: definition.ownerId,
      lock,
      onEnded: () => void this.#trimmer.afterExecution().catch(() => {}), // retried after the next execution
    });
    this.#background = new BackgroundEventRecorder({
      writer: this.#log,
      outputs,
      limits: services.limits,
      executions: this.#executions,
    });
    this.#trimmer = new SessionTrimmer({
      services,
      log: this.#log,
      definition: current,
      executions: this.#executions,
    });
    this.permissions = new SessionPermissions({
      sessionId: this.id,
      ownerId: definition.ownerId,
      documents: storage.documents,
      writer: this.#log,
      executions: this.#executions,
      definition: current,
    });
    this.turns = new SessionTurns({
      session: this,
      key: this.#lease.key,
      storage,
      requests,
      permissions: this.permissions,
      writer: this.#log,
      outputs,
      bounds: services.limits,
      definition: current,
      draining: services.draining,
      queuedBytes: services.queuedBytes,
      agents: services.agents,
      onEnded: (status) => {
        services.counters.turns[status] = (services.counters.turns[status] ?? 0) + 1;
      },
    });
    this.#ending = new SessionEnding({
      sessionId: this.id,
      lock,
      log: this.#log,
      outputs,
      requests,
      lease: this.#lease,
      executions: this.#executions,
      turns: this.turns,
      permissions: this.permissions,
      trimmer: this.#trimmer,
      onOwnershipLost: () => services.onOwnershipLost(this),
    });
    this.#ending.watchLock();
  }

  /** Marks what ran when the previous server ended as interrupted, before anyone can read. */
  static async open(services: SessionServices, known: SessionDefinition): Promise<ServerSession> {
    const session = new ServerSession(services, await openParts(services, known));
    await session.permissions.recover().catch(async (error) => {
      await session.close().catch(() => {}); // the caller gets the first error
      throw error;
    });
    return session;
  }

  get definition(): SessionDefinition {
    return this.#definition.value;
  }

  /** The stored definition, if it is known without reading storage: only the owner of a session changes it. */
  get storedDefinition(): SessionDefinition | undefined {
    return this.#ending.isOwner && this.#definition.isStored ? this.#definition.value : undefined;
  }

  get state(): SessionInfo['state'] {
    if (this.#executions.running !== undefined) return 'running';
    return this.#lease.isLive ? 'idle' : 'hibernated';
  }

  /** Whether it has no kernel, no reader and no work, so that it can be closed. */
  get isUnused(): boolean {
    const busy = this.#executions.running !== undefined || this.queued > 0 || this.turns.busy || this.#lease.inUse;
    return !busy && !this.#lease.isLive && !this.#log.hasReaders;
  }

  get queued(): number {
    return this.#executions.queued;
  }

  info(): SessionInfo {
    return toSessionInfo(this.definition, this);
  }

  /** Resolves when the code is accepted. */
  execute(code: string, options: contract.ServerExecuteOptions = {}): Promise<contract.ExecutionHandle> {
    return this.#executions.execute(code, options);
  }

  /** For a caller in this process. */
  submit(execution: ServerExecution): void {
    this.#executions.submit(execution);
  }

  /**
   * The events after a number, then new ones as they come, each once. Ends after the end of `execution`, if given, and when
   * the session is deleted. A slow reader costs no memory: it reads from storage.
   */
  events(options: contract.EventStreamOptions = {}): AsyncIterable<StreamItem> {
    const { events: log } = this.#services.storage;
    return readEvents({ log, key: this.#lease.key, writer: this.#log, ending: this.#ending }, options);
  }

  /** The numbers of the last deleted event and of the newest event. */
  async position(): Promise<{ trimmedThrough: number; last: number }> {
    return { trimmedThrough: await this.#services.storage.events.floor(this.#lease.key), last: this.#log.state.last };
  }

  async interrupt(): Promise<boolean> {
    return (await this.#lease.session?.interrupt()) ?? false;
  }

  /** Stops only the execution with this key: interrupts it if it runs, cancels it if it waits. */
  interruptKeyed(idempotencyKey: string): Promise<boolean> {
    return this.#executions.stopKeyed(idempotencyKey);
  }

  /** The first answer wins; the others get `INPUT_NOT_PENDING`. */
  async answerInput(id: number, text: string, { by }: { readonly by?: string } = {}): Promise<void> {
    const answer = (session: Session) => session.answerInput(id, text);
    await this.#executions.inputs.reply(this.#lease.session, id, { outcome: 'answered', by }, answer);
  }

  async cancelInput(
    id: number,
    { reason, by }: { readonly reason?: string; readonly by?: string } = {},
  ): Promise<void> {
    const cancel = (session: Session) => session.cancelInput(id, reason);
    await this.#executions.inputs.reply(this.#lease.session, id, { outcome: 'cancelled', by }, cancel);
  }

  /** Output that was too large for an event. Throws `NOT_FOUND` if the file does not exist, or no longer. */
  openOutput(file: string): Promise<contract.OutputContent> {
    return this.#outputs.open(file);
  }

  /** The folder of its files on the host; undefined if no kernel has made it yet. Starts no kernel. */
  async workspace(): Promise<FilesRoot | undefined> {
    this.#ending.checkOpen();
    const { key: agentKey, session: known } = this.#lease;
    if (known) return known.files;
    const { storage, dataDir, session } = this.#services;
    const { settings, folderIds } = this.definition;
    const { cwd, executor, sandbox } = { ...session, ...settings };
    const place = { agentKey, cwd, executor, sandbox, dataDir, folderLinks: session.folderLinks, folderIds };
    return await findWorkspace(place, storage.records);
  }

  /** The cells that it has run, oldest first. Starts no kernel. */
  async history(): Promise<readonly HistoryEntry[]> {
    this.#ending.checkOpen();
    const { key, session } = this.#lease;
    if (session) return await session.history();
    // As the last process that ran its kernel stored it.
    const { history = [] } = (await this.storage.records.get(key)) ?? {};
    return history.map(({ execution, code, status }) => ({ execution, code, status }));
  }

  /** The session as `SessionApi`, which logs what is done with it. Starts the kernel. */
  async api(): Promise<SessionApi> {
    this.#ending.checkOpen();
    return await this.#lease.use(async (session) => new LoggedSession(session, this));
  }

  /** The namespaces of the current session, if there is one. Disposing of them closes nothing. */
  get namespaces(): OpenedNamespaces | undefined {
    const { session } = this.#lease;
    if (!session) return undefined;
    const { tools, skills, artifacts, deps } = session;
    return { tools, skills, artifacts, deps, [Symbol.asyncDispose]: async () => {} };
  }

  /** Throws `FORK_UNCONFIRMED` if its code came from another user, and its own user has not confirmed it. */
  requireConfirmed(): void {
    if (this.definition.unconfirmed) throw unconfirmed(this.id);
  }

  /** Saves its variables and ends its kernel. The next one starts in a sandbox of its own. */
  async leaveSharedEnvironment(): Promise<void> {
    this.#ending.checkOpen();
    if (this.#lease.isLive) await this.#lease.use((session) => session.hibernate());
  }

  /** The underlying session, for its workspace and its sandbox. What it runs is not logged. */
  async session(): Promise<Session> {
    this.#ending.checkOpen();
    return await this.#lease.use(async (session) => session);
  }

  /** The options of a runner for its agent. Starts no kernel. */
  async runnerSpec(): Promise<RunnerSpec> {
    this.#ending.checkOpen();
    const { storage, dataDir, session } = this.#services;
    const { settings, folderIds } = this.definition;
    const { key: agentKey } = this.#lease;
    const workspaceOf = (await storage.records.get(agentKey))?.workspaceOf;
    const options = { ...session, ...settings, folderIds, agentKey, dataDir };
    const onNetworkDenied: RunnerSpec['onNetworkDenied'] = (attempt, turn) => {
      this.#log.add({ type: 'network_denied', ...attempt, turn });
      this.#services.refused(this.definition, { kind: 'proxy', detail: `${attempt.host}:${attempt.port}` });
    };
    return { info: this.info(), options, workspaceOf, onNetworkDenied };
  }

  /** Like `session`, for long work such as a terminal: the kernel is not hibernated meanwhile. */
  use<T>(work: (session: Session) => Promise<T>): Promise<T> {
    this.#ending.checkOpen();
    return this.#lease.use(work);
  }

  /** Logs a change of the session's state. */
  logStateChange(change: StateChange, { subject, by }: StateFacts = {}): Promise<number> {
    if (change === 'reset' || change === 'restarted') this.#services.counters.restarts++;
    return this.#log.write({ type: 'session_state', change, subject, by });
  }

  /** The current state of its kernel, newer than its record. Undefined if it has had none since the server started. */
  async kernelState(): Promise<(Pick<KernelInfo, 'state' | 'executions'> & { readonly key: string }) | undefined> {
    const { key, isLive, session } = this.#lease;
    if (!session) return undefined;
    const cells = await session.history();
    return { key, state: isLive ? 'live' : 'hibernated', executions: cells.at(-1)?.execution ?? 0 };
  }

  /** Does not wait for running code: packages can be imported after it. */
  async refreshPackages(): Promise<void> {
    const refreshed = this.#lease.session?.refreshPackages();
    if (this.#executions.running === undefined) await refreshed;
    else void refreshed?.catch(() => {}); // the next kernel has them
  }

  /** The progress of packages that are installed before its kernel starts. */
  recordProgress(text: string): void {
    this.#background.recordProgress(text);
  }

  /** Changes its settings from the next call on. Changes are applied one after the other. */
  applyDefinition(update: () => Promise<SessionDefinition>): Promise<void> {
    return this.#definition.update(update);
  }

  /** Gives a session without a kernel one with the same memory. */
  forkKernelInto(child: ServerSession, from: string | undefined): Promise<void> {
    return this.#lease.fork(child.#lease, from);
  }

  /** Another session with the same memory. */
  fork(request: NewFork): Promise<ServerSession> {
    return this.#services.fork(this.id, request);
  }

  delete(): Promise<void> {
    return this.#services.delete(this.id);
  }

  applyRetention(): Promise<void> {
    return this.#trimmer.apply();
  }

  async idle(): Promise<void> {
    await Promise.all([this.turns.idle(), this.#executions.idle()]);
  }

  /** Saves the variables and ends the kernel. Readers get the error. */
  close(why: CellaError = drainingError()): Promise<void> {
    return this.#ending.close(why);
  }

  /** Ends the kernel without saving. Deletes the log, the files and the requests. */
  destroy(): Promise<void> {
    return this.#ending.destroy();
  }
}

function unconfirmed(id: string): CellaError {
  const how = `\`cella sessions confirm ${id}\``;
  const message = `Session ${id} is a fork of another user’s session, and its owner has not confirmed it yet: ${how}.`;
  const advice = `Look at its files, variables and history first. Then its owner runs ${how}, or sends POST /v1/sessions/${id}/confirm.`;
  return new CellaError('FORK_UNCONFIRMED', message, { advice, details: { session: id, refused: 'namespace' } });
}

interface OpenedParts {
  readonly lock: Lock;
  readonly definition: SessionDefinition;
  /** Writes only while this server owns the session. */
  readonly storage: Storage;
  readonly outputs: OutputFiles;
  readonly requests: IdempotencyStore;
  /** Called once. */
  readonly makeLog: (hooks: Pick<SessionLogParts, 'onFailure' | 'resultOf'>) => SessionLog;
}

async function openParts(services: SessionServices, known: SessionDefinition): Promise<OpenedParts> {
  const { dataDir, counters } = services;
  const { id, ownerId, agentKey } = known;
  const key = storageKeyOf(ownerId, agentKey);
  const outputs = new OutputFiles(dataDir, id);
  const lock = await acquireSession(services.storage, key);
  const recover = async () => {
    // Another server may have changed or deleted it before this one got the lock.
    const definition = await services.refetch(known);
    const storage = services.storage.fenced(lock);
    const requests = new IdempotencyStore(storage.documents, outputs, id, services.requests);
    await services.leftovers?.claim(id, lock);
    return { definition, storage, requests, ...(await recoverLog(storage, { key, sessionId: id, requests })) };
  };
  const { position, interrupted, ...recovered } = await recover().catch(async (error) => {
    await lock.release().catch(() => {}); // the caller gets the first error
    throw error;
  });
  if (interrupted > 0) counters.executions.interrupted = (counters.executions.interrupted ?? 0) + interrupted;
  const owned = () => lock.state !== 'lost';
  return {
    ...recovered,
    lock,
    outputs,
    makeLog: (hooks) => new SessionLog({ log: recovered.storage.events, key, counters, owned, ...hooks }, position),
  };
}
