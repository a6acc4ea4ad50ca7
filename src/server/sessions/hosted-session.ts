/** A session of the server: its log, its executions, its kernel and whoever reads along, put together. */

import type { FilesRoot } from '../../environments/files/session-files.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { FeedItem, SessionEventBody } from '../../protocol/session-events.ts';
import type { NewFork, SessionInfo } from '../../protocol/session-info.ts';
import type { AgentInfo, HistoryEntry, SessionApi } from '../../session/api.ts';
import type { Session } from '../../session/session.ts';
import type { OpenedNamespaces } from '../../session/session-namespaces.ts';
import type { Storage } from '../../storage/contract.ts';
import { Permissions } from '../permissions/permissions.ts';
import type { Tenant } from '../runners/contract.ts';
import { stopping } from '../stopping.ts';
import { SessionTurns } from '../turns/session-turns.ts';
import { historyAsleep, workspaceAsleep } from './asleep.ts';
import { Background } from './background.ts';
import type * as contract from './contract.ts';
import type { Definition } from './definition.ts';
import { Ending } from './ending.ts';
import type { EventWriter } from './event-writer.ts';
import type { HostedExecution } from './execution.ts';
import { Executions } from './executions.ts';
import { readFeed } from './feed.ts';
import { HostedApi } from './hosted-api.ts';
import { infoOf, settingsOf } from './info.ts';
import { Inputs } from './inputs.ts';
import { Intake } from './intake.ts';
import { Lodging } from './lodging.ts';
import { beginOpening, type Opening } from './opening.ts';
import type { Outputs } from './outputs.ts';
import type { HostShare } from './share.ts';
import { tenantOf } from './tenant.ts';
import { Upkeep } from './upkeep.ts';
import { storageOf } from './user-storage.ts';

type Change = Extract<SessionEventBody, { type: 'session_state' }>['change'];
interface Facts {
  readonly subject?: string | undefined;
  readonly by?: string | undefined;
}

export class HostedSession {
  readonly id: string;
  readonly storage: Storage;
  readonly #share: HostShare;
  readonly #writer: EventWriter;
  readonly #outputs: Outputs;
  readonly #inputs: Inputs;
  readonly #lodging: Lodging;
  readonly #executions: Executions;
  readonly #background: Background;
  readonly #intake: Intake;
  readonly #upkeep: Upkeep;
  readonly #ending: Ending;
  /** Of its coding agent. */
  readonly turns: SessionTurns;
  /** What waits for somebody's leave: of an agent, and of tools that require approval. */
  readonly permissions: Permissions;
  #definition: Definition;
  #redefining: Promise<void> = Promise.resolve();

  private constructor(whole: HostShare, { definition, storage, lock, outputs, requests, writer }: Opening) {
    const share = { ...whole, storage };
    this.id = definition.id;
    this.storage = storage;
    this.#share = share;
    this.#definition = definition;
    this.#outputs = outputs;
    this.#writer = writer({
      onFailure: (error) => this.#ending.abort(error),
      resultOf: (execution) => this.#executions.resultOf(execution),
    });
    this.#inputs = new Inputs(this.#writer);
    this.#lodging = new Lodging({
      share,
      storage: storageOf(storage, definition.ownerId),
      definition: () => this.#definition,
      onSession: (session) => void this.#background.record(session),
      onSleep: () => void this.note('hibernated').catch(() => {}), // the writer counts what is lost
    });
    this.#executions = new Executions({
      share,
      writer: this.#writer,
      outputs,
      requests,
      inputs: this.#inputs,
      lodging: this.#lodging,
      queueLimit: () => settingsOf(this.#definition).queueLimit,
    });
    this.#background = new Background({
      writer: this.#writer,
      outputs,
      limits: share.limits,
      owner: (number) => this.#executions.owner(number),
    });
    this.#upkeep = new Upkeep({
      share,
      writer: this.#writer,
      definition: () => this.#definition,
      between: (work) => this.#executions.between(work),
    });
    this.permissions = new Permissions({
      sessionId: this.id,
      ownerId: definition.ownerId,
      documents: storage.documents,
      writer: this.#writer,
      running: () => this.#executions.asker,
      timeouts: () => {
        const { permissionTimeoutMs: agentMs, inputTimeoutMs: toolMs } = settingsOf(this.#definition);
        return { agentMs, toolMs };
      },
    });
    this.turns = new SessionTurns({
      session: this,
      key: this.#lodging.key,
      storage,
      permissions: this.permissions,
      writer: this.#writer,
      outputs,
      bounds: share.limits,
      queueLimit: () => settingsOf(this.#definition).queueLimit,
      stopping: share.stopping,
      agents: share.agents,
      requireConfirmed: () => this.requireConfirmed(),
      onEnded: (status) => {
        share.counters.turns[status] = (share.counters.turns[status] ?? 0) + 1;
      },
    });
    this.#intake = new Intake({
      requests,
      check: () => {
        this.#ending.checkOpen();
        if (share.stopping()) throw stopping();
      },
      submit: (execution) => this.submit(execution),
    });
    this.#ending = new Ending({
      sessionId: this.id,
      lock,
      writer: this.#writer,
      outputs,
      requests,
      lodging: this.#lodging,
      executions: this.#executions,
      turns: this.turns,
      permissions: this.permissions,
      upkeep: this.#upkeep,
      onForsaken: () => share.forsaken(this),
    });
    this.#ending.heedLock();
  }

  /** What ran when the server before this one ended is marked before anybody reads. */
  static async open(share: HostShare, known: Definition): Promise<HostedSession> {
    const session = new HostedSession(share, await beginOpening(share, known));
    await session.permissions.recover().catch(async (error) => {
      await session.close().catch(() => {}); // what kept it from opening is told
      throw error;
    });
    return session;
  }

  get definition(): Definition {
    return this.#definition;
  }

  get state(): SessionInfo['state'] {
    if (this.#executions.running !== undefined) return 'running';
    return this.#lodging.awake ? 'idle' : 'hibernated';
  }

  /** Without kernel, reader and work: it costs memory and nothing else. */
  get isUnused(): boolean {
    const busy = this.#executions.running !== undefined || this.queued > 0 || this.turns.busy || this.#lodging.inUse;
    return !busy && !this.#lodging.awake && !this.#writer.hasReaders;
  }

  get queued(): number {
    return this.#executions.queued;
  }

  async info(): Promise<SessionInfo> {
    return infoOf(this.#definition, this);
  }

  /** Resolves when the code is accepted: it runs when its turn comes, in the order in which it was accepted. */
  accept(code: string, options: contract.HostedExecuteOptions = {}): Promise<contract.AcceptedExecution> {
    return this.#intake.accept(code, options);
  }

  /** Resolves when the code's turn has come and its first event is durable. */
  start(code: string, options: contract.HostedExecuteOptions = {}): Promise<contract.StartedExecution> {
    return this.#intake.start(code, options);
  }

  /** Resolves when its ending is durable. Exceptions in the code are results, not rejections. */
  execute(code: string, options: contract.HostedExecuteOptions = {}): Promise<contract.ExecutionOutcome> {
    return this.#intake.execute(code, options);
  }

  /** For a caller in this process. */
  submit(execution: HostedExecution): void {
    this.#ending.checkOpen();
    this.#executions.submit(execution);
    const done = () => void this.#upkeep.afterExecution().catch(() => {}); // tried again after the next
    execution.ended.then(done, done);
  }

  /**
   * What there is after a number, and then what comes, each once. It ends by itself with `execution` (after its ending),
   * and where the session is deleted. A reader who is slow costs nothing: it is read from the log for him.
   */
  events(options: contract.FeedOptions = {}): AsyncIterable<FeedItem> {
    const { events: log } = this.#share.storage;
    return readFeed({ log, key: this.#lodging.key, writer: this.#writer, ended: () => this.#ending.why }, options);
  }

  /** The numbers of the last event that is gone and of the last that there is. */
  async position(): Promise<{ floor: number; last: number }> {
    return { floor: await this.#share.storage.events.floor(this.#lodging.key), last: this.#writer.position.last };
  }

  async interrupt(): Promise<boolean> {
    return (await this.#lodging.session?.interrupt()) ?? false;
  }

  /** Only the execution that came with this key: interrupted where it runs, taken back where it waits. */
  interruptKeyed(idempotencyKey: string): Promise<boolean> {
    return this.#intake.stop(idempotencyKey);
  }

  /** The first answer wins; the others get `INPUT_NOT_PENDING`. */
  async answerInput(id: number, text: string, { by }: { readonly by?: string } = {}): Promise<void> {
    const answer = (session: Session) => session.answerInput(id, text);
    await this.#inputs.reply(this.#lodging.session, id, { outcome: 'answered', by }, answer);
  }

  async cancelInput(
    id: number,
    { reason, by }: { readonly reason?: string; readonly by?: string } = {},
  ): Promise<void> {
    const cancel = (session: Session) => session.cancelInput(id, reason);
    await this.#inputs.reply(this.#lodging.session, id, { outcome: 'cancelled', by }, cancel);
  }

  /** What was too large for an event; `NOT_FOUND` where there is no such file, or it is gone by now. */
  openOutput(file: string): Promise<contract.OutputContent> {
    return this.#outputs.open(file);
  }

  /** The folder of its files on the host; undefined where no kernel has made it yet. Wakes no kernel. */
  async workspace(): Promise<FilesRoot | undefined> {
    this.#ending.checkOpen();
    return this.#lodging.session?.files ?? (await workspaceAsleep(this.#share, this.#definition));
  }

  /** The cells that it has run, oldest first. Wakes no kernel. */
  async history(): Promise<readonly HistoryEntry[]> {
    this.#ending.checkOpen();
    return (await this.#lodging.session?.history()) ?? (await historyAsleep(this.#share, this.#definition));
  }

  /** The rest. What it runs is in the log as well, and so is what it does to the session. Wakes the kernel. */
  async api(): Promise<SessionApi> {
    this.#ending.checkOpen();
    return await this.#lodging.use(async (session) => new HostedApi(session, this));
  }

  /** Those of the session that there is now; whoever has looked at them closes nothing. */
  get things(): OpenedNamespaces | undefined {
    const { session } = this.#lodging;
    if (!session) return undefined;
    const { tools, skills, artifacts, deps } = session;
    return { tools, skills, artifacts, deps, [Symbol.asyncDispose]: async () => {} };
  }

  /** FORK_UNCONFIRMED where its code came from somebody else, and its owner has not confirmed it. */
  requireConfirmed(): void {
    if (this.#definition.unconfirmed) throw unconfirmed(this.id);
  }

  /** Saves its names and ends its kernel; the next one begins in a sandbox of its own. */
  async moveOut(): Promise<void> {
    this.#ending.checkOpen();
    if (this.#lodging.awake) await this.#lodging.use((session) => session.hibernate());
  }

  /** The session in this process, for its workspace and its sandbox. Nothing that it runs is in the log. */
  async session(): Promise<Session> {
    this.#ending.checkOpen();
    return await this.#lodging.use(async (session) => session);
  }

  /** What an executor for its agent is made from. Wakes no kernel. */
  async tenant(): Promise<Tenant> {
    this.#ending.checkOpen();
    const made = await tenantOf(this.#share, this.#definition, await this.info());
    const tellDenied: Tenant['tellDenied'] = (attempt, turn) => {
      this.#writer.add({ type: 'network_denied', ...attempt, ...(turn === undefined ? {} : { turn }) }, 0);
      this.#share.refused(this.#definition, { kind: 'proxy', detail: `${attempt.host}:${attempt.port}` });
    };
    return { ...made, tellDenied };
  }

  /** The same, for work that takes long, such as a terminal: its kernel does not fall asleep meanwhile. */
  use<T>(work: (session: Session) => Promise<T>): Promise<T> {
    this.#ending.checkOpen();
    return this.#lodging.use(work);
  }

  /** Writes down what was done to the session. */
  note(change: Change, { subject, by }: Facts = {}): Promise<number> {
    const facts = { ...(subject === undefined ? {} : { subject }), ...(by === undefined ? {} : { by }) };
    if (change === 'reset' || change === 'restarted') this.#share.counters.restarts++;
    return this.#writer.write({ type: 'session_state', change, ...facts });
  }

  /** What storage may not know of its agent yet; undefined where it had no kernel since the server began. */
  async agent(): Promise<(Pick<AgentInfo, 'state' | 'executions'> & { readonly key: string }) | undefined> {
    const { key, awake, session } = this.#lodging;
    if (!session) return undefined;
    const cells = await session.history();
    return { key, state: awake ? 'live' : 'hibernated', executions: cells.at(-1)?.execution ?? 0 };
  }

  /** Waits for no code: where some runs, they are there after it. */
  async refreshPackages(): Promise<void> {
    const refreshed = this.#lodging.session?.refreshPackages();
    if (this.#executions.running === undefined) await refreshed;
    else void refreshed?.catch(() => {}); // the next kernel has them
  }

  /** How far packages are that its kernel needs before it starts. */
  tellProgress(text: string): void {
    this.#background.tellProgress(text);
  }

  /** It has other settings from the next call on. One change after the other: the last that is written is the one that holds. */
  async redefine(update: () => Promise<Definition>): Promise<void> {
    const redefining = this.#redefining.then(async () => {
      this.#definition = await update();
    });
    this.#redefining = redefining.catch(() => {}); // told to whoever asked for it
    await redefining;
  }

  /** Gives a session that has none yet a kernel with the same memory. */
  branch(child: HostedSession, from: string | undefined): Promise<void> {
    return this.#lodging.fork(child.#lodging, from);
  }

  /** Another session with the same memory. */
  fork(wanted: NewFork): Promise<HostedSession> {
    return this.#share.fork(this.id, wanted);
  }

  delete(): Promise<void> {
    return this.#share.delete(this.id);
  }

  retain(): Promise<void> {
    return this.#upkeep.retain();
  }

  async idle(): Promise<void> {
    await Promise.all([this.turns.idle(), this.#executions.idle()]);
  }

  /** Saves the names and ends the kernel; readers get the error. */
  close(why: CellaError = stopping()): Promise<void> {
    return this.#ending.close(why);
  }

  /** Ends the kernel without saving. The log, the files and the requests are gone after it. */
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
