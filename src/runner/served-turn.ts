/** One turn that the server has asked for over RPC: its events, its permissions and its outcome. */

import type { z } from 'zod';
import type { AgentAdapter, AgentSetup, ModelAccess } from '../agents/agent-adapter.ts';
import type { AgentEvent } from '../protocol/agent-events.ts';
import type { KeyMode } from '../protocol/enums.ts';
import { CellaError } from '../protocol/errors.ts';
import type { PermissionAnswer, PermissionRequest } from '../protocol/permission.ts';
import type { RpcPeer } from '../protocol/rpc-peer.ts';
import {
  type Decision,
  type ExecutePrompt,
  GetApiKey,
  GetExecutionContext,
  type PermissionResolved,
  ReportCompletion,
  ReportMessage,
  ReportProgress,
  RequestPermission,
  type TurnClaim,
  type TurnReport,
} from '../protocol/runner-methods.ts';
import { type TurnResult, toAgentFailure } from '../protocol/turn.ts';
import { type AgentLoader, runAgentTurn, throughGateway, withSessionServer } from './agent-turn.ts';

type PromptParams = z.output<typeof ExecutePrompt.params>;

/** What a turn needs from its runner. */
export interface TurnHost {
  readonly peer: RpcPeer;
  readonly agents: AgentLoader;
  readonly keyMode: KeyMode;
  /** Undefined if there is no gateway. */
  readonly gatewayUrl: string | undefined;
  /** The variables of every program in the environment. */
  readonly env: Readonly<Record<string, string>>;
  /** Kills what the turn left running, which could take the token of the next turn. */
  killLeftovers(): Promise<void>;
}

export class ServedTurn {
  readonly permissions: RpcPermissions;
  readonly #host: TurnHost;
  readonly #prompt: PromptParams;
  readonly #claim: TurnClaim;
  readonly #reports: EventReporter;
  readonly #stop = new AbortController();

  constructor(host: TurnHost, prompt: PromptParams) {
    const { session_token, session_id, turn_id } = prompt;
    this.#host = host;
    this.#prompt = prompt;
    this.#claim = { session_token, session_id, turn_id };
    this.permissions = new RpcPermissions(host.peer, this.#claim);
    this.#reports = new EventReporter(host.peer, this.#claim, () => this.stop());
  }

  get id(): string {
    return this.#prompt.turn_id;
  }

  stop(): void {
    this.#stop.abort();
  }

  async run(): Promise<TurnReport> {
    const { agent, turn_id: id, prompt, mode, model, tools, conversation } = this.#prompt;
    const { peer, agents } = this.#host;
    const result = await runAgentTurn({
      load: () => agents.load(agent),
      setup: (adapter, signal) => this.#setup(adapter, signal),
      turn: { id, prompt, mode, model, tools, conversation, emit: (event) => this.#reports.send(event) },
      permit: (request, signal) => this.permissions.ask(request, signal),
      stop: this.#stop.signal,
      onPhase: (phase) => void peer.notify(ReportProgress, { ...this.#claim, phase }),
    });
    await this.#host.killLeftovers();
    return await this.#complete(result);
  }

  /** Reports the result once all messages are durable. If the server refused one, the turn has failed. */
  async #complete(result: TurnResult): Promise<TurnReport> {
    const refusal = await this.#reports.end().then(
      () => undefined,
      (error: unknown) => (error instanceof CellaError ? error : undefined),
    );
    const refused = refusal && { status: 'failed' as const, error: toAgentFailure(refusal) };
    const report: TurnReport = { ...result, ...refused, message_count: this.#reports.count };
    if (!refusal) await this.#host.peer.call(ReportCompletion, { ...this.#claim, ...report });
    return report;
  }

  async #setup(adapter: AgentAdapter, signal: AbortSignal): Promise<AgentSetup> {
    const { peer, env, gatewayUrl } = this.#host;
    const { cwd, session_token } = this.#prompt;
    const context = await peer.call(GetExecutionContext, this.#claim, { signal });
    const { session_mcp, profile } = context;
    const hasServer = session_mcp !== undefined && gatewayUrl !== undefined;
    return {
      cwd,
      homeDir: context.home_dir,
      programDir: context.program_dir,
      env: { ...env, ...context.env },
      model: await this.#access(adapter, signal),
      profile: hasServer ? withSessionServer(profile, session_mcp, gatewayUrl, session_token) : profile,
    };
  }

  async #access(adapter: AgentAdapter, signal: AbortSignal): Promise<ModelAccess> {
    const { peer, gatewayUrl, keyMode } = this.#host;
    if (keyMode === 'just-in-time') {
      const { provider } = adapter;
      const { api_key, base_url } = await peer.call(GetApiKey, { ...this.#claim, provider }, { signal });
      return { baseUrl: base_url, key: api_key };
    }
    if (gatewayUrl !== undefined) return throughGateway(gatewayUrl, adapter, this.#claim.session_token);
    throw new CellaError('INVALID_OPTIONS', 'The server named no gateway, so the agent cannot reach a model.');
  }
}

/** Keeps the connection busy while the server writes, and stays below its limit of open calls. */
const WINDOW = 32;
/** Far below the longest frame, also with escapes. */
const MAX_EVENT_CHARS = 2 * 1024 * 1024;

class EventReporter {
  readonly #peer: RpcPeer;
  readonly #claim: TurnClaim;
  readonly #onRefused: () => void;
  readonly #underWay = new Set<Promise<void>>();
  #refusal: CellaError | undefined;
  #ended = false;
  #count = 0;

  /** @param onRefused called when the server refuses an event */
  constructor(peer: RpcPeer, claim: TurnClaim, onRefused: () => void) {
    this.#peer = peer;
    this.#claim = claim;
    this.#onRefused = onRefused;
  }

  /** Resolves when there is room for more; rejects if the server has refused one. */
  async send(event: AgentEvent): Promise<void> {
    this.#check();
    this.#begin(limitSize(event));
    while (this.#underWay.size >= WINDOW) await Promise.race(this.#underWay);
    this.#check();
  }

  /** Resolves when all sent events are durable. Nothing can be sent after it. */
  async end(): Promise<void> {
    this.#ended = true;
    await Promise.all(this.#underWay);
    if (this.#refusal) throw this.#refusal;
  }

  get count(): number {
    return this.#count;
  }

  #check(): void {
    if (this.#refusal) throw this.#refusal;
    if (this.#ended) throw new CellaError('ABORTED', 'The turn has ended: it can send no more events.');
  }

  /** Synchronous, so that the order is that of the calls. */
  #begin(event: AgentEvent): void {
    this.#count += 1;
    const sent = this.#peer
      .call(ReportMessage, { ...this.#claim, sequence: this.#count, event })
      .then(
        () => {},
        (error: unknown) => this.#refuse(error),
      )
      .finally(() => this.#underWay.delete(sent));
    this.#underWay.add(sent);
  }

  #refuse(error: unknown): void {
    if (this.#refusal) return;
    this.#refusal =
      error instanceof CellaError
        ? error
        : new CellaError('INTERNAL', 'A message could not be sent.', { cause: error });
    this.#onRefused();
  }
}

/** Replaces an event that is too large with a notice. */
function limitSize(event: AgentEvent): AgentEvent {
  const { length } = JSON.stringify(event);
  if (length <= MAX_EVENT_CHARS) return event;
  const text = `The agent's ${event.type} was dropped: ${length} characters are too many for an event.`;
  return { type: 'agent_notice', turn: event.turn, text };
}

/** Decisions that came before the reply with their request id; normally few. */
const MOST_EARLY = 100;
const MOST_SUMMARY = 10_000;

class RpcPermissions {
  readonly #peer: RpcPeer;
  readonly #claim: TurnClaim;
  readonly #waiting = new Map<string, (decision: Decision) => void>();
  readonly #early = new Map<string, Decision>();
  #asking = 0;

  constructor(peer: RpcPeer, claim: TurnClaim) {
    this.#peer = peer;
    this.#claim = claim;
  }

  /** Never rejects: an error counts as not allowed. */
  async ask(request: PermissionRequest, signal: AbortSignal): Promise<PermissionAnswer> {
    this.#asking += 1;
    try {
      return toAnswer(await this.#decide(request, signal));
    } catch (error) {
      const why = error instanceof CellaError ? error.message : 'the request failed';
      return { allowed: false, reason: `The permission request failed: ${why}` };
    } finally {
      this.#asking -= 1;
    }
  }

  /** False if nothing waits for it. */
  resolve({ request_id, outcome, reason, text }: z.output<typeof PermissionResolved.params>): boolean {
    const decision = { outcome, reason, text };
    const waiting = this.#waiting.get(request_id);
    if (waiting) {
      this.#waiting.delete(request_id);
      waiting(decision);
      return true;
    }
    if (this.#asking === 0 || this.#early.size >= MOST_EARLY) return false;
    this.#early.set(request_id, decision);
    return true;
  }

  async #decide(request: PermissionRequest, signal: AbortSignal): Promise<Decision> {
    const { request_id, decision } = await this.#peer.call(
      RequestPermission,
      { ...this.#claim, ...request, summary: request.summary.slice(0, MOST_SUMMARY) },
      { signal },
    );
    const known = decision ?? this.#early.get(request_id);
    this.#early.delete(request_id);
    if (known) return known;
    const decided = Promise.withResolvers<Decision>();
    this.#waiting.set(request_id, decided.resolve);
    return await decided.promise;
  }
}

function toAnswer({ outcome, reason, text }: Decision): PermissionAnswer {
  if (outcome === 'allowed') return { allowed: true, reason, text };
  const why = outcome === 'timed_out' ? 'Nobody answered in time.' : 'It was not allowed.';
  return { allowed: false, reason: reason ?? why, text };
}
