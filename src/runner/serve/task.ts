/** One prompt that the daemon has given: the turn, what is told of it, and how it ended. */

import type { z } from 'zod';
import type { AgentAdapter, AgentSetup, ModelAccess } from '../../agents/contract.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { RpcPeer } from '../../protocol/rpc-peer.ts';
import {
  type ExecutePrompt,
  GetApiKey,
  GetExecutionContext,
  type KeyMode,
  ReportCompletion,
  ReportProgress,
  type TaskOutcome,
} from '../../protocol/runner-methods.ts';
import { throughGateway, withSessionServer } from '../access.ts';
import type { AgentSource } from '../agents.ts';
import { failure, runTurn, type TurnEnd } from '../turn.ts';
import { Permissions } from './permissions.ts';
import { Reports, type TaskClaim } from './reports.ts';

export type Prompt = z.output<typeof ExecutePrompt.params>;

/** What a task needs of the runner that it runs in. */
export interface TaskHost {
  readonly peer: RpcPeer;
  readonly agents: AgentSource;
  readonly keyMode: KeyMode;
  /** Where the gateway is reached; undefined where there is none. */
  readonly gatewayUrl: string | undefined;
  /** Those that every program of the environment has. */
  readonly env: Readonly<Record<string, string>>;
  /** Ends what a turn has left running: it would meet the token of the next. */
  tidy(): Promise<void>;
}

export class Task {
  readonly permissions: Permissions;
  readonly #host: TaskHost;
  readonly #prompt: Prompt;
  readonly #claim: TaskClaim;
  readonly #reports: Reports;
  readonly #stop = new AbortController();

  constructor(host: TaskHost, prompt: Prompt) {
    const { session_token, session_id, task_id } = prompt;
    this.#host = host;
    this.#prompt = prompt;
    this.#claim = { session_token, session_id, task_id };
    this.permissions = new Permissions(host.peer, this.#claim);
    this.#reports = new Reports(host.peer, this.#claim, () => this.stop());
  }

  get id(): string {
    return this.#prompt.task_id;
  }

  stop(): void {
    this.#stop.abort();
  }

  async run(): Promise<TaskOutcome> {
    const { agentic_tool, task_id, prompt, permission_mode, model, tools, conversation, timeout_ms } = this.#prompt;
    const { peer, agents } = this.#host;
    const end = await runTurn({
      load: () => agents.load(agentic_tool),
      setup: (adapter, signal) => this.#setup(adapter, signal),
      turn: {
        id: task_id,
        prompt,
        mode: permission_mode,
        model,
        tools,
        conversation,
        emit: (event) => this.#reports.send(event),
        permit: (ask, signal) => this.permissions.ask(ask, signal),
      },
      timeoutMs: timeout_ms,
      stop: this.#stop.signal,
      onPhase: (phase) => void peer.notify(ReportProgress, { ...this.#claim, phase }),
    });
    await this.#host.tidy();
    return await this.#complete(end);
  }

  /** The outcome is told once all messages are durable; where they are not, that is how the turn ended. */
  async #complete(end: TurnEnd): Promise<TaskOutcome> {
    const refusal = await this.#reports.end().then(
      () => undefined,
      (error: unknown) => (error instanceof CellaError ? error : undefined),
    );
    const { status, conversation, usage, error } = refusal ? refusedEnd(end, refusal) : end;
    const outcome: TaskOutcome = {
      status,
      message_count: this.#reports.count,
      ...(usage && { token_usage: usage }),
      ...(conversation !== undefined && { conversation }),
      ...(error && { error }),
    };
    if (!refusal) await this.#host.peer.call(ReportCompletion, { ...this.#claim, ...outcome });
    return outcome;
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
    throw new CellaError('INVALID_OPTIONS', 'The runner was told of no gateway, and models are reached by it alone.');
  }
}

function refusedEnd(end: TurnEnd, refusal: CellaError): TurnEnd {
  return { ...end, status: 'failed', error: failure(refusal.code, refusal.message) };
}
