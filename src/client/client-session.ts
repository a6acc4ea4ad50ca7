/** A session of a server as SessionApi: code that works with a session of this process works with it. */

import {
  DecidePermission,
  DeleteSessionRule,
  ListCodingAgents,
  ListPermissions,
  ListSessionRules,
  ReadConversation,
  ReadTranscript,
  StopAgent,
  WarmAgent,
} from '../protocol/api/agent-routes.ts';
import { AnswerInput, InterruptCode, ReadEvents } from '../protocol/api/execution-routes.ts';
import type { Route } from '../protocol/api/route.ts';
import * as sessionRoutes from '../protocol/api/session-routes.ts';
import { ConfirmFork, DeleteSession, ForkSession } from '../protocol/api/session-routes.ts';
import type { Conversation } from '../protocol/conversation.ts';
import { type Capabilities, capabilitiesOf, type ExecutorKind, resolveExecutor } from '../protocol/enums.ts';
import type { BackgroundEvent, ExecutionEvent, ResultEvent } from '../protocol/execution-events.ts';
import type {
  Checkpoint,
  Completeness,
  Completion,
  HistoryEntry,
  Inspection,
  Restored,
  Variable,
} from '../protocol/kernel-state.ts';
import { PermissionDecision, type PermissionInfo, type PermissionRule } from '../protocol/permission.ts';
import { type FeedItem, toBackgroundEvent } from '../protocol/session-events.ts';
import type { SessionInfo } from '../protocol/session-info.ts';
import type { CodingAgent, Transcript } from '../protocol/turn.ts';
import type { Terminal, TerminalOptions } from '../protocol/workspace-models.ts';
import type * as api from '../session/api.ts';
import { type ApiClient, callSession, type SessionApiClient } from './api-client.ts';
import { type Attend, listenForApprovals } from './approval-listener.ts';
import { RemoteExecutions, sessionClosed } from './remote-execution.ts';
import { RemoteFiles } from './remote-files.ts';
import { RemoteArtifacts, RemoteDeps, RemoteSkills, RemoteTools } from './remote-namespaces.ts';
import { openTerminal } from './remote-terminal.ts';
import { RemoteTurn } from './remote-turn.ts';
import { subscribe, subscribeToConversation } from './subscribe.ts';

/** `floor` is the number of the last event that is gone, `last` that of the last that there is. */
export interface EventPage {
  readonly events: readonly FeedItem[];
  readonly floor: number;
  readonly last: number;
  readonly next: number;
}

/** How a session is used from here. */
export interface UseOptions {
  /** Asked before a tool runs that requires approval, whoever's code calls it. The first who answers decides. */
  readonly approve?: Attend;
  /**
   * Code that is begun here is this client's own: `interrupt` is for it alone, and it ends where the session is closed
   * here; with `when-gone` also where the connection is gone. By default it goes on.
   */
  readonly stop?: 'when-closed' | 'when-gone';
}

export interface ClientSessionOptions extends UseOptions {
  readonly link: ApiClient;
  readonly info: SessionInfo;
  readonly resumeMs: number;
  /** The number of the last event that there was when it was opened here. */
  readonly last: number;
}

export class ClientSession implements api.SessionApi, api.AgentApi {
  readonly id: string;
  readonly agentKey: string;
  readonly executor: ExecutorKind;
  readonly sandboxed: boolean;
  readonly capabilities: Capabilities;
  readonly tools: api.ToolsApi;
  readonly skills: api.SkillsApi;
  readonly artifacts: api.ArtifactsApi;
  readonly deps: api.DepsApi;
  /** Its workspace. */
  readonly files: RemoteFiles;
  readonly #parts: ClientSessionOptions;
  readonly #place: SessionApiClient;
  readonly #closing = new AbortController();
  /** The last prompt that was given is at the server, or will not be. */
  #prompted: Promise<void> = Promise.resolve();
  readonly #executions: RemoteExecutions;
  #backgroundAfter: number;

  constructor(parts: ClientSessionOptions) {
    const { link, info, last } = parts;
    this.#parts = parts;
    this.id = info.id;
    this.agentKey = info.agentKey;
    this.executor = resolveExecutor(info.settings.executor);
    this.capabilities = capabilitiesOf(this.executor);
    this.sandboxed = this.executor !== 'in-process' && info.settings.sandbox !== 'off';
    this.#backgroundAfter = last;
    const stopWhenGone = parts.stop === 'when-gone';
    this.#executions = new RemoteExecutions({ ...parts, session: this, closing: this.#closing.signal, stopWhenGone });
    const place = { link, id: info.id, check: () => this.#checkOpen() };
    this.#place = place;
    this.tools = new RemoteTools(place);
    this.skills = new RemoteSkills(place);
    this.artifacts = new RemoteArtifacts(place);
    this.deps = new RemoteDeps(place);
    this.files = new RemoteFiles(place, this.#closing.signal);
  }

  static async open(
    link: ApiClient,
    info: SessionInfo,
    options: UseOptions & { resumeMs: number },
  ): Promise<ClientSession> {
    const query = { after: Number.MAX_SAFE_INTEGER, limit: 1 };
    const { last } = await link.call(ReadEvents, { params: { id: info.id }, query });
    const session = new ClientSession({ link, info, last, ...options });
    const { resumeMs, approve } = options;
    const closing = session.#closing.signal;
    if (approve) await listenForApprovals({ link, sessionId: info.id, after: last, resumeMs, closing, approve });
    return session;
  }

  run(code: string, options: api.RunOptions = {}): Promise<ResultEvent> {
    return this.#executions.run(code, options);
  }

  stream(code: string, options: api.ExecuteOptions = {}): AsyncIterable<ExecutionEvent> {
    return this.#executions.stream(code, options);
  }

  answerInput(id: number, text: string): Promise<void> {
    return this.#call(AnswerInput, { request: id, text });
  }

  cancelInput(id: number, reason?: string): Promise<void> {
    return this.#call(AnswerInput, { request: id, cancel: true, reason: reason?.slice(0, 500) });
  }

  async interrupt(): Promise<boolean> {
    if (this.#parts.stop) return await this.#executions.interrupt();
    return (await this.#call(InterruptCode, {})).interrupted;
  }

  reset(): Promise<void> {
    return this.#call(sessionRoutes.ResetSession);
  }

  restart(): Promise<void> {
    return this.#call(sessionRoutes.RestartSession);
  }

  commit(): Promise<void> {
    return this.#call(sessionRoutes.CommitTransaction);
  }

  rollback(): Promise<void> {
    return this.#call(sessionRoutes.RollbackTransaction);
  }

  checkpoint({ name, durable }: api.CheckpointOptions = {}): Promise<Checkpoint> {
    return this.#call(sessionRoutes.CreateCheckpoint, { name, durable });
  }

  async checkpoints(): Promise<readonly Checkpoint[]> {
    return (await this.#call(sessionRoutes.ListCheckpoints)).checkpoints;
  }

  restore(idOrName: string): Promise<Restored> {
    return this.#call(sessionRoutes.RestoreCheckpoint, undefined, { checkpoint: idOrName });
  }

  deleteCheckpoint(idOrName: string): Promise<void> {
    return this.#call(sessionRoutes.DeleteCheckpoint, undefined, { checkpoint: idOrName });
  }

  /** Confirms a fork of somebody else's session: its code may use what is yours. For its owner. */
  async confirm(): Promise<void> {
    await this.#call(ConfirmFork);
  }

  /** What is used as this one is, but for approvals: nobody can tell whose are asked about. */
  async fork({ agentKey, from, replace }: api.ForkOptions): Promise<ClientSession> {
    const { link, resumeMs, stop } = this.#parts;
    const forked = await this.#call(ForkSession, { agentKey, from, replace });
    return await ClientSession.open(link, forked, { resumeMs, ...(stop === undefined ? {} : { stop }) });
  }

  undo(): Promise<void> {
    return this.#call(sessionRoutes.UndoCell);
  }

  save(): Promise<void> {
    return this.#call(sessionRoutes.SaveSession);
  }

  hibernate(): Promise<void> {
    return this.#call(sessionRoutes.HibernateSession);
  }

  complete(code: string, cursor?: number): Promise<Completion> {
    return this.#call(sessionRoutes.CompleteCode, { code, cursor });
  }

  inspect(code: string, cursor?: number): Promise<Inspection> {
    return this.#call(sessionRoutes.InspectCode, { code, cursor });
  }

  isComplete(code: string): Promise<Completeness> {
    return this.#call(sessionRoutes.IsComplete, { code });
  }

  async history(): Promise<readonly HistoryEntry[]> {
    return (await this.#call(sessionRoutes.ReadHistory)).history;
  }

  async variables(): Promise<readonly Variable[]> {
    return (await this.#call(sessionRoutes.ListVariables)).variables;
  }

  /** Every event of the session after a number, and then those that come, whoever caused them. */
  events({
    after = 0,
    signal,
  }: {
    readonly after?: number;
    readonly signal?: AbortSignal;
  } = {}): AsyncGenerator<FeedItem, void, undefined> {
    this.#checkOpen();
    const { link, resumeMs } = this.#parts;
    const until = signal ? AbortSignal.any([signal, this.#closing.signal]) : this.#closing.signal;
    return subscribe(link, this.id, { after, resumeMs, signal: until });
  }

  /** Those that there are after a number, up to a page; `next` is the number to go on with. */
  eventPage({
    after = 0,
    limit = 1000,
  }: {
    readonly after?: number;
    readonly limit?: number;
  } = {}): Promise<EventPage> {
    return callSession(this.#place, ReadEvents, { query: { after, limit } });
  }

  /** Prompts a coding agent: its events as they come, or how its turn ended. */
  prompt(prompt: string, options: api.PromptOptions = {}): api.PromptedTurn {
    this.#checkOpen();
    const { link, resumeMs } = this.#parts;
    const closing = this.#closing.signal;
    const turn = new RemoteTurn({
      link,
      sessionId: this.id,
      prompt,
      options,
      resumeMs,
      closing,
      before: this.#prompted,
    });
    this.#prompted = turn.sent;
    return turn;
  }

  /** The coding agents that there are, and whether they can be prompted here. */
  async agents(): Promise<readonly CodingAgent[]> {
    return (await this.#call(ListCodingAgents)).agents;
  }

  /** What its agents have done so far, as it is shown: `state` after the event with the number `seq`. */
  async conversation(): Promise<Conversation> {
    return await this.#call(ReadConversation);
  }

  /** The same, and then after each event that changes it, until the signal says so or the session is closed. */
  conversations({ signal }: { readonly signal?: AbortSignal } = {}): AsyncIterable<Conversation> {
    this.#checkOpen();
    const { link, resumeMs } = this.#parts;
    const closing = this.#closing.signal;
    const over = signal ? AbortSignal.any([signal, closing]) : closing;
    return subscribeToConversation(link, this.id, { resumeMs, signal: over });
  }

  async warmAgent(agent: string): Promise<boolean> {
    return (await this.#call(WarmAgent, undefined, { agent })).warm;
  }

  /** Stops the turn that runs, or the one that is named, also where it waits. */
  async stop({ turn, all }: { readonly turn?: string; readonly all?: boolean } = {}): Promise<readonly string[]> {
    return (await this.#call(StopAgent, { turn, all })).turns;
  }

  /** The conversation as the agent keeps it: the last one, or the one that is named. */
  async transcript({ conversation }: { readonly conversation?: string } = {}): Promise<Transcript> {
    return await callSession(this.#place, ReadTranscript, { query: { conversation } });
  }

  /** What was asked for, oldest first. */
  async permissions({ state }: { readonly state?: PermissionInfo['state'] } = {}): Promise<readonly PermissionInfo[]> {
    return (await callSession(this.#place, ListPermissions, { query: { state } })).permissions;
  }

  /** `ALREADY_RESOLVED` where somebody was faster: who, and what, is in its `details`. */
  decidePermission(id: string, decision: PermissionDecision): Promise<PermissionInfo> {
    return this.#call(DecidePermission, PermissionDecision.parse(decision), { permission: id });
  }

  /** What is allowed in this session until it is deleted. */
  async permissionRules(): Promise<readonly PermissionRule[]> {
    return (await this.#call(ListSessionRules)).rules;
  }

  deletePermissionRule(id: string): Promise<void> {
    return this.#call(DeleteSessionRule, undefined, { rule: id });
  }

  /** A terminal in the sandbox of the session; it ends when its connection does. */
  async terminal(options: TerminalOptions = {}): Promise<Terminal> {
    this.#checkOpen();
    return await openTerminal(this.#parts.link, this.id, options, this.#closing.signal);
  }

  async *background(): AsyncGenerator<BackgroundEvent, void, undefined> {
    if (this.#closing.signal.aborted) return;
    for await (const item of this.events({ after: this.#backgroundAfter })) {
      if ('seq' in item) this.#backgroundAfter = item.seq;
      const event = toBackgroundEvent(item);
      if (event) yield event;
    }
  }

  /** Only here: the session goes on at the server. */
  async close(): Promise<void> {
    if (this.#parts.stop && !this.#closing.signal.aborted) await this.#executions.stop();
    this.#closing.abort();
  }

  async destroy(): Promise<void> {
    await this.#call(DeleteSession);
    await this.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #call<P, Q, B, R>(endpoint: Route<P, Q, B, R>, body?: B, params: Record<string, string> = {}): Promise<R> {
    return await callSession(this.#place, endpoint, { params, ...(body === undefined ? {} : { body }) });
  }

  #checkOpen(): void {
    if (this.#closing.signal.aborted) throw sessionClosed();
  }
}
