/** A session of a server as SessionApi: code written for a session in this process also works with it. */

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
import { type StreamItem, toBackgroundEvent } from '../protocol/session-events.ts';
import type { SessionInfo } from '../protocol/session-info.ts';
import type { CodingAgent, Transcript } from '../protocol/turn.ts';
import type { Terminal, TerminalOptions } from '../protocol/workspace-models.ts';
import type * as api from '../session/api.ts';
import { type ApiClient, allPages, SessionApiClient } from './api-client.ts';
import { type ApprovalResponder, listenForApprovals } from './approval-listener.ts';
import { RemoteExecutions, sessionClosedHere } from './remote-execution.ts';
import { RemoteArtifacts, RemoteDeps, RemoteSessionTools, RemoteSkills } from './remote-namespaces.ts';
import { RemoteTurn } from './remote-turn.ts';
import { openRemoteTerminal, RemoteFiles } from './remote-workspace.ts';
import { CHECKPOINTS_AT_ONCE } from './resources.ts';
import { subscribe, subscribeToConversation } from './subscribe.ts';

/** `trimmedThrough` is the number of the last event that the server no longer keeps, `last` that of the latest event. */
export interface EventPage {
  readonly events: readonly StreamItem[];
  readonly trimmedThrough: number;
  readonly last: number;
  readonly next: number;
}

/** How this client uses a session. */
export interface UseOptions {
  /** Called before a tool that requires approval runs, no matter who started the code. The first answer decides. */
  readonly approve?: ApprovalResponder;
  /**
   * Ties code to the client that started it: `interrupt` affects only this client's code, and closing the session here
   * stops that code. With `when-gone`, losing the connection stops it, too. By default, code keeps running.
   */
  readonly stop?: 'when-closed' | 'when-gone';
}

interface ClientSessionOptions extends UseOptions {
  readonly api: ApiClient;
  readonly info: SessionInfo;
  readonly resumeMs: number;
  /** The number of the latest event when this client opened the session. */
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
  /** The session's workspace. */
  readonly files: RemoteFiles;
  readonly #parts: ClientSessionOptions;
  readonly #session: SessionApiClient;
  readonly #closing = new AbortController();
  /** Settles when the last prompt has reached the server or failed to. */
  #prompted: Promise<void> = Promise.resolve();
  readonly #executions: RemoteExecutions;
  #backgroundAfter: number;

  constructor(parts: ClientSessionOptions) {
    const { api, info, last } = parts;
    this.#parts = parts;
    this.id = info.id;
    this.agentKey = info.agentKey;
    this.executor = resolveExecutor(info.settings.executor);
    this.capabilities = capabilitiesOf(this.executor);
    this.sandboxed = this.executor !== 'in-process' && info.settings.sandbox !== 'off';
    this.#backgroundAfter = last;
    const stopWhenGone = parts.stop === 'when-gone';
    this.#executions = new RemoteExecutions({ ...parts, session: this, closing: this.#closing.signal, stopWhenGone });
    const session = new SessionApiClient(api, info.id, () => this.#checkOpen());
    this.#session = session;
    this.tools = new RemoteSessionTools(session);
    this.skills = new RemoteSkills(session.namespaces);
    this.artifacts = new RemoteArtifacts(session.namespaces);
    this.deps = new RemoteDeps(session.namespaces);
    this.files = new RemoteFiles(session, this.#closing.signal);
  }

  static async open(
    api: ApiClient,
    info: SessionInfo,
    options: UseOptions & { resumeMs: number },
  ): Promise<ClientSession> {
    const last = await new SessionApiClient(api, info.id).position();
    const session = new ClientSession({ api, info, last, ...options });
    const { resumeMs, approve } = options;
    const closing = session.#closing.signal;
    if (approve) await listenForApprovals({ api, sessionId: info.id, after: last, resumeMs, closing, approve });
    return session;
  }

  run(code: string, options: api.RunOptions = {}): Promise<ResultEvent> {
    return this.#executions.run(code, options);
  }

  stream(code: string, options: api.ExecuteOptions = {}): AsyncIterable<ExecutionEvent> {
    return this.#executions.stream(code, options);
  }

  answerInput(id: number, text: string): Promise<void> {
    return this.#session.call('answerInput', { body: { request: id, text } });
  }

  cancelInput(id: number, reason?: string): Promise<void> {
    return this.#session.call('answerInput', { body: { request: id, cancel: true, reason: reason?.slice(0, 500) } });
  }

  async interrupt(): Promise<boolean> {
    if (this.#parts.stop) return await this.#executions.interrupt();
    return (await this.#session.call('interruptCode')).interrupted;
  }

  reset(): Promise<void> {
    return this.#session.call('resetSession');
  }

  restart(): Promise<void> {
    return this.#session.call('restartSession');
  }

  commit(): Promise<void> {
    return this.#session.call('commitTransaction');
  }

  rollback(): Promise<void> {
    return this.#session.call('rollbackTransaction');
  }

  checkpoint({ name, durable }: api.CheckpointOptions = {}): Promise<Checkpoint> {
    return this.#session.call('createCheckpoint', { body: { name, durable } });
  }

  async checkpoints(): Promise<readonly Checkpoint[]> {
    return await allPages(async (after) => {
      const page = await this.#session.call('listCheckpoints', { query: { after, limit: CHECKPOINTS_AT_ONCE } });
      return { items: page.checkpoints, next: page.next };
    });
  }

  restore(idOrName: string): Promise<Restored> {
    return this.#session.call('restoreCheckpoint', { params: { checkpoint: idOrName } });
  }

  deleteCheckpoint(idOrName: string): Promise<void> {
    return this.#session.call('deleteCheckpoint', { params: { checkpoint: idOrName } });
  }

  /** Confirms a fork of another user's session, so that its code may act for you. Only the fork's owner can do so. */
  async confirm(): Promise<void> {
    await this.#session.call('confirmFork');
  }

  /** The fork inherits how this session is used, except for `approve`: a request would not say which session it is for. */
  async fork({ agentKey, from, replace }: api.ForkOptions): Promise<ClientSession> {
    const { api, resumeMs, stop } = this.#parts;
    const forked = await this.#session.call('forkSession', { body: { agentKey, from, replace } });
    return await ClientSession.open(api, forked, { resumeMs, stop });
  }

  undo(): Promise<void> {
    return this.#session.call('undoCell');
  }

  save(): Promise<void> {
    return this.#session.call('saveSession');
  }

  hibernate(): Promise<void> {
    return this.#session.call('hibernateSession');
  }

  complete(code: string, cursor?: number): Promise<Completion> {
    return this.#session.call('completeCode', { body: { code, cursor } });
  }

  inspect(code: string, cursor?: number): Promise<Inspection> {
    return this.#session.call('inspectCode', { body: { code, cursor } });
  }

  isComplete(code: string): Promise<Completeness> {
    return this.#session.call('checkComplete', { body: { code } });
  }

  async history(): Promise<readonly HistoryEntry[]> {
    return (await this.#session.call('readHistory')).history;
  }

  async variables(): Promise<readonly Variable[]> {
    return (await this.#session.call('listVariables')).variables;
  }

  /** All events of the session after a number, then new events as they happen, from all clients. */
  events({
    after = 0,
    signal,
  }: {
    readonly after?: number;
    readonly signal?: AbortSignal;
  } = {}): AsyncGenerator<StreamItem, void, undefined> {
    this.#checkOpen();
    const { api, resumeMs } = this.#parts;
    const until = signal ? AbortSignal.any([signal, this.#closing.signal]) : this.#closing.signal;
    return subscribe(api, this.id, { after, resumeMs, signal: until });
  }

  /** One page of existing events after a number. Pass `next` to get the next page. */
  eventPage({
    after = 0,
    limit = 1000,
  }: {
    readonly after?: number;
    readonly limit?: number;
  } = {}): Promise<EventPage> {
    return this.#session.call('readEvents', { query: { after, limit } });
  }

  /** Prompts a coding agent. Iterate the result for events, or await its `turn` for the outcome. */
  prompt(prompt: string, options: api.PromptOptions = {}): api.PromptedTurn {
    this.#checkOpen();
    const { api, resumeMs } = this.#parts;
    const closing = this.#closing.signal;
    const turn = new RemoteTurn({
      api,
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

  /** All coding agents, and whether this session can prompt them. */
  async agents(): Promise<readonly CodingAgent[]> {
    return (await this.#session.call('listCodingAgents')).agents;
  }

  /** What the session's agents have done so far, for display: `state` as of the event with the number `seq`. */
  async conversation(): Promise<Conversation> {
    return await this.#session.call('readConversation');
  }

  /** Like `conversation`, then again after each event that changes it, until the signal aborts or the session is closed. */
  conversations({ signal }: { readonly signal?: AbortSignal } = {}): AsyncIterable<Conversation> {
    this.#checkOpen();
    const { api, resumeMs } = this.#parts;
    const closing = this.#closing.signal;
    const over = signal ? AbortSignal.any([signal, closing]) : closing;
    return subscribeToConversation(api, this.id, { resumeMs, signal: over });
  }

  async warmAgent(agent: string): Promise<boolean> {
    return (await this.#session.call('warmAgent', { params: { agent } })).warm;
  }

  /** Stops the running turn, or the named turn even if it is still queued. */
  async stop({ turn, all }: { readonly turn?: string; readonly all?: boolean } = {}): Promise<readonly string[]> {
    return (await this.#session.call('stopAgent', { body: { turn, all } })).turns;
  }

  /** The agent's own transcript of the named conversation, or of the last one. */
  async transcript({ conversation }: { readonly conversation?: string } = {}): Promise<Transcript> {
    return await this.#session.call('readTranscript', { query: { conversation } });
  }

  /** Permission requests, oldest first. */
  async permissions({ state }: { readonly state?: PermissionInfo['state'] } = {}): Promise<readonly PermissionInfo[]> {
    return (await this.#session.call('listPermissions', { query: { state } })).permissions;
  }

  /** Throws `ALREADY_RESOLVED` if another client answered first. Its `details` say who decided, and what. */
  decidePermission(id: string, decision: PermissionDecision): Promise<PermissionInfo> {
    return this.#session.call('decidePermission', {
      params: { permission: id },
      body: PermissionDecision.parse(decision),
    });
  }

  /** What is allowed in this session for the rest of its life. */
  async permissionRules(): Promise<readonly PermissionRule[]> {
    return (await this.#session.call('listSessionRules')).rules;
  }

  deletePermissionRule(id: string): Promise<void> {
    return this.#session.call('deleteSessionRule', { params: { rule: id } });
  }

  /** Opens a terminal in the session's sandbox. It ends with its connection. */
  async terminal(options: TerminalOptions = {}): Promise<Terminal> {
    this.#checkOpen();
    return await openRemoteTerminal(this.#parts.api, this.id, options, this.#closing.signal);
  }

  async *background(): AsyncGenerator<BackgroundEvent, void, undefined> {
    if (this.#closing.signal.aborted) return;
    for await (const item of this.events({ after: this.#backgroundAfter })) {
      if ('seq' in item) this.#backgroundAfter = item.seq;
      const event = toBackgroundEvent(item);
      if (event) yield event;
    }
  }

  /** Closes the session for this client only: it stays open at the server. */
  async close(): Promise<void> {
    if (this.#parts.stop && !this.#closing.signal.aborted) await this.#executions.stop();
    this.#closing.abort();
  }

  async destroy(): Promise<void> {
    await this.#session.call('deleteSession');
    await this.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #checkOpen(): void {
    if (this.#closing.signal.aborted) throw sessionClosedHere();
  }
}
