/** A session of the server: its log, its executions, its kernel and whoever reads along, put together. */

import { CellaError } from '../../protocol/errors.ts';
import type { FeedItem, SessionEventBody } from '../../protocol/http/events.ts';
import type { NewFork, SessionInfo } from '../../protocol/http/sessions.ts';
import type { AgentInfo, HistoryEntry, SessionApi } from '../../session/api.ts';
import type { OpenedNamespaces } from '../../session/open-namespaces.ts';
import type { Session } from '../../session/session.ts';
import type { Lock, Storage } from '../../storage/contract.ts';
import { noSession } from '../access/rights.ts';
import { Permissions } from '../permissions/permissions.ts';
import { stopping } from '../stopping.ts';
import { SessionTurns } from '../turns/session-turns.ts';
import type { Tenant } from '../workers/contract.ts';
import { historyAsleep, workspaceAsleep } from './asleep.ts';
import { recordBackground } from './background.ts';
import type * as contract from './contract.ts';
import type { Definition } from './definition.ts';
import { EventWriter, type WriterParts } from './event-writer.ts';
import { type Ended, HostedExecution } from './execution.ts';
import { Executions } from './executions.ts';
import { readFeed } from './feed.ts';
import { HostedApi } from './hosted-api.ts';
import { storageKeyOf } from './ids.ts';
import { infoOf, settingsOf } from './info.ts';
import { Inputs } from './inputs.ts';
import { KeyedExecutions } from './keyed.ts';
import { Lodging } from './lodging.ts';
import { Outputs } from './outputs.ts';
import { doubtful, elsewhere, takeSession } from './ownership.ts';
import { recoverLog } from './recovery.ts';
import { Requests } from './requests.ts';
import type { HostShare } from './share.ts';
import { tenantOf } from './tenant.ts';
import { Upkeep } from './upkeep.ts';
import { storageOf } from './user-storage.ts';

type Change = Extract<SessionEventBody, { type: 'session_state' }>['change'];
interface Facts {
  readonly subject?: string | undefined;
  readonly by?: string | undefined;
}

/** What is there before it. */
interface OpenParts {
  readonly lock: Lock;
  /** For what is written on its behalf. */
  readonly storage: Storage;
  readonly outputs: Outputs;
  readonly requests: Requests;
  readonly writer: (told: Pick<WriterParts, 'onFailure' | 'resultOf'>) => EventWriter;
}

export class HostedSession implements contract.HostedSession {
  readonly id: string;
  readonly storage: Storage;
  readonly #share: HostShare;
  readonly #lock: Lock;
  readonly #writer: EventWriter;
  readonly #outputs: Outputs;
  readonly #requests: Requests;
  readonly #inputs: Inputs;
  readonly #lodging: Lodging;
  readonly #executions: Executions;
  readonly #keyed: KeyedExecutions;
  readonly #upkeep: Upkeep;
  /** Of its coding agent. */
  readonly turns: SessionTurns;
  readonly permissions: Permissions;
  /** How far packages are that are installed before a kernel starts. */
  #installing = new Set<string>();
  #definition: Definition;
  #ended: CellaError | 'deleted' | undefined;

  private constructor(whole: HostShare, definition: Definition, parts: OpenParts) {
    const { storage } = parts;
    const share = { ...whole, storage };
    this.id = definition.id;
    this.storage = storage;
    this.#share = share;
    this.#definition = definition;
    this.#lock = parts.lock;
    this.#outputs = parts.outputs;
    this.#requests = parts.requests;
    this.#writer = parts.writer({
      onFailure: (error) => this.#abort(error),
      resultOf: (execution) => this.#executions.resultOf(execution),
    });
    this.#inputs = new Inputs(this.#writer);
    this.#lodging = new Lodging({
      share,
      storage: storageOf(storage, definition.ownerId),
      definition: () => this.#definition,
      onSession: (session) => this.#listen(session),
      onSleep: () => this.#tell('hibernated'),
    });
    this.#executions = new Executions({
      share,
      writer: this.#writer,
      outputs: this.#outputs,
      requests: this.#requests,
      inputs: this.#inputs,
      lodging: this.#lodging,
      queueLimit: () => settingsOf(this.#definition).queueLimit,
    });
    this.#upkeep = new Upkeep({
      share,
      writer: this.#writer,
      definition: () => this.#definition,
      between: (work) => this.#executions.between(work),
    });
    this.permissions = new Permissions({
      sessionId: this.id,
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
      outputs: this.#outputs,
      bounds: share.limits,
      queueLimit: () => settingsOf(this.#definition).queueLimit,
      stopping: share.stopping,
      agents: share.agents,
      onEnded: (status) => {
        share.counters.turns[status] = (share.counters.turns[status] ?? 0) + 1;
      },
    });
    this.#keyed = new KeyedExecutions(this.#requests, (execution) => this.submit(execution));
    this.#lock.watch((state) => {
      if (state === 'doubtful') this.#abort(doubtful());
      if (state === 'lost') void this.#forsake();
    });
    // One that is doubtful may turn out to be held.
    if (this.#lock.state === 'lost') void this.#forsake();
  }

  /** What ran when the server before this one ended is marked before anybody reads. */
  static async open(share: HostShare, known: Definition): Promise<HostedSession> {
    const { dataDir, counters } = share;
    const { id, ownerId, agentKey } = known;
    const key = storageKeyOf(ownerId, agentKey);
    const outputs = new Outputs(dataDir, id);
    const lock = await takeSession(share.storage, key);
    const recover = async () => {
      // Another server may have changed or deleted it before the lock was this one's.
      const definition = await share.current(known);
      const storage = share.storage.fenced(lock);
      const requests = new Requests(storage.documents, outputs, id, share.requests);
      await share.leftovers?.arrive(id, key);
      return { definition, storage, requests, ...(await recoverLog(storage, { key, sessionId: id, requests })) };
    };
    const { definition, storage, requests, position, interrupted } = await recover().catch(async (error) => {
      await lock.release().catch(() => {}); // what kept it from opening is told
      throw error;
    });
    if (interrupted > 0) counters.executions.interrupted = (counters.executions.interrupted ?? 0) + interrupted;
    const session = new HostedSession(share, definition, {
      outputs,
      requests,
      lock,
      storage,
      writer: (told) => {
        const owned = () => lock.state !== 'lost';
        return new EventWriter({ log: storage.events, key, counters, owned, ...told }, position);
      },
    });
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

  get queued(): number {
    return this.#executions.queued;
  }

  async info(): Promise<SessionInfo> {
    return infoOf(this.#definition, this);
  }

  async accept(code: string, options: contract.HostedExecuteOptions = {}): Promise<contract.AcceptedExecution> {
    const { entered, joined } = await this.#enter(code, options);
    if (entered.kind === 'known') {
      const { execution, firstSeq } = entered.outcome;
      return { execution, joined, started: Promise.resolve(firstSeq), outcome: Promise.resolve(entered.outcome) };
    }
    const { execution } = entered;
    const outcome = execution.ended.then((ended) => toOutcome(ended, joined));
    // Who streams the events hears of it there.
    outcome.catch(() => {});
    return { execution: execution.id, started: execution.started, joined, outcome };
  }

  async start(code: string, options: contract.HostedExecuteOptions = {}): Promise<contract.StartedExecution> {
    const { started, ...accepted } = await this.accept(code, options);
    return { ...accepted, firstSeq: await started };
  }

  async execute(code: string, options: contract.HostedExecuteOptions = {}): Promise<contract.ExecutionOutcome> {
    const { entered, joined } = await this.#enter(code, options);
    return entered.kind === 'known' ? entered.outcome : toOutcome(await entered.execution.ended, joined);
  }

  /** For a caller in this process. */
  submit(execution: HostedExecution): void {
    this.#checkOpen();
    this.#executions.submit(execution);
    const done = () => void this.#upkeep.afterExecution().catch(() => {}); // tried again after the next
    execution.ended.then(done, done);
  }

  events(options: contract.FeedOptions = {}): AsyncIterable<FeedItem> {
    const { events: log } = this.#share.storage;
    return readFeed({ log, key: this.#lodging.key, writer: this.#writer, ended: () => this.#ended }, options);
  }

  async position(): Promise<{ floor: number; last: number }> {
    return { floor: await this.#share.storage.events.floor(this.#lodging.key), last: this.#writer.position.last };
  }

  async interrupt(): Promise<boolean> {
    return (await this.#lodging.session?.interrupt()) ?? false;
  }

  interruptKeyed(idempotencyKey: string): Promise<boolean> {
    return this.#keyed.stop(idempotencyKey);
  }

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

  openOutput(file: string): Promise<contract.OutputContent> {
    return this.#outputs.open(file);
  }

  async workspace(): Promise<string | undefined> {
    this.#checkOpen();
    return this.#lodging.session?.cwd ?? (await workspaceAsleep(this.#share, this.#definition));
  }

  async history(): Promise<readonly HistoryEntry[]> {
    this.#checkOpen();
    return (await this.#lodging.session?.history()) ?? (await historyAsleep(this.#share, this.#definition));
  }

  async api(): Promise<SessionApi> {
    this.#checkOpen();
    return await this.#lodging.use(async (session) => new HostedApi(session, this));
  }

  /** Those of the session that there is now; whoever has looked at them closes nothing. */
  get things(): OpenedNamespaces | undefined {
    const { session } = this.#lodging;
    if (!session) return undefined;
    const { tools, skills, artifacts, deps } = session;
    return { tools, skills, artifacts, deps, [Symbol.asyncDispose]: async () => {} };
  }

  async session(): Promise<Session> {
    this.#checkOpen();
    return await this.#lodging.use(async (session) => session);
  }

  async tenant(): Promise<Tenant> {
    this.#checkOpen();
    const made = await tenantOf(this.#share, this.#definition, await this.info());
    const tellDenied: Tenant['tellDenied'] = (attempt, turn) =>
      this.#writer.add({ type: 'network_denied', ...attempt, ...(turn === undefined ? {} : { turn }) }, 0);
    return { ...made, tellDenied };
  }

  /** Its kernel does not fall asleep meanwhile. */
  use<T>(work: (session: Session) => Promise<T>): Promise<T> {
    this.#checkOpen();
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
    const { awake, session } = this.#lodging;
    const refreshed = awake ? session?.refreshPackages() : undefined;
    if (this.#executions.running === undefined) await refreshed;
    else void refreshed?.catch(() => {}); // the next kernel has them
  }

  /** How far packages are that its kernel needs before it starts. */
  tellProgress(text: string): void {
    this.#installing.add(text);
    this.#writer.add({ type: 'progress', background: true, task: 'deps.sync', text }, text.length);
  }

  /** It has other settings from the next call on. */
  redefine(definition: Definition): void {
    this.#definition = definition;
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
  async close(why: CellaError = stopping()): Promise<void> {
    this.permissions.leave();
    await Promise.all([this.turns.close(why), this.#executions.close(why)]);
    await this.permissions.close();
    try {
      await this.#lodging.close();
      await this.#writer.settled();
      await this.#upkeep.mark();
    } finally {
      await this.#finish(why);
      await this.#lock.release().catch(() => {}); // where storage is away, it ends by itself
    }
  }

  /** Ends the kernel without saving. The log, the files and the requests are gone after it. */
  async destroy(): Promise<void> {
    const gone = noSession(this.id);
    await Promise.all([this.turns.close(gone), this.#executions.close(gone)]);
    await this.permissions.close();
    await this.note('deleted').catch(() => {}); // storage does not work; deleting tells
    await this.#finish('deleted');
    await this.#lodging.destroy();
    await this.#requests.remove();
    await this.turns.remove();
    await this.#outputs.remove();
    await this.#lock.release();
  }

  /** Another server has it: what runs here ends at once, unsaved, and whoever waits or reads along is told. */
  async #forsake(): Promise<void> {
    const why = elsewhere();
    this.#ended ??= why;
    this.#share.forsaken(this);
    this.#writer.tell();
    this.permissions.leave();
    this.#abort(why);
    const over = Promise.all([this.turns.close(why), this.#executions.close(why)]);
    // What they still want to write is refused.
    await Promise.allSettled([this.#lodging.abandon(), over, this.permissions.close()]);
    await this.#finish(why);
  }

  #abort(why: CellaError): void {
    this.#executions.abort(why);
    this.turns.abort(why);
  }

  async #finish(why: CellaError | 'deleted'): Promise<void> {
    this.#ended ??= why;
    await this.#writer.close();
    this.#writer.tell();
  }

  async #enter(code: string, options: contract.HostedExecuteOptions) {
    this.#checkOpen();
    if (this.#share.stopping()) throw stopping();
    const { idempotencyKey } = options;
    if (idempotencyKey !== undefined) return await this.#keyed.enter(code, options, idempotencyKey);
    const execution = new HostedExecution(code, options);
    this.submit(execution);
    return { entered: { kind: 'live', execution } as const, joined: false };
  }

  #listen(session: Session): void {
    const owner = (number?: number) => this.#executions.owner(number);
    const told = this.#installing;
    this.#installing = new Set();
    const parts = { writer: this.#writer, outputs: this.#outputs, limits: this.#share.limits, owner, told };
    void recordBackground(session, parts);
  }

  #tell(change: Change): void {
    this.note(change).catch(() => {}); // the writer counts what is lost
  }

  #checkOpen(): void {
    if (this.#ended instanceof CellaError) throw this.#ended;
    if (this.#ended) throw noSession(this.id);
    if (!this.#lock.held) throw doubtful();
  }
}

function toOutcome({ event, ...outcome }: Ended, joined: boolean): contract.ExecutionOutcome {
  return { ...outcome, joined };
}
