/** The port that every coding agent implements, modelled on the Agent Client Protocol. */

import type { AgentEvent, AgentFailure, AgentLogEvent } from '../protocol/agent-events.ts';
import type { AgentProfile } from '../protocol/agent-profile.ts';
import type { AgentName, PermissionMode, TokenUsage } from '../protocol/turn.ts';

/** What an agent is given to work with. Paths are as they are where it runs. */
export interface AgentSetup {
  readonly cwd: string;
  /** Its own: configuration and conversations. */
  readonly homeDir: string;
  /** Where `cella agents install` has put its program. */
  readonly programDir: string;
  /** PATH and what else every program there has; never a key. */
  readonly env: Readonly<Record<string, string>>;
  /** Where model calls go, and what stands in for the key there. */
  readonly model: ModelAccess;
  readonly profile: AgentProfile;
}

export interface ModelAccess {
  /** The base URL of the gateway for this provider: `http://127.0.0.1:PORT/anthropic`. */
  readonly baseUrl: string;
  readonly key: string;
}

export interface AgentTurn {
  readonly id: string;
  readonly prompt: string;
  readonly mode: PermissionMode;
  readonly model?: string | undefined;
  /** Those of the agent's own tools that it may have; without it, all. */
  readonly tools?: readonly string[] | undefined;
  /** The conversation to go on with; a new one without it. */
  readonly conversation?: string | undefined;
  /** Aborted where the turn is to stop: it then ends as `cancelled`, also while a permission waits. */
  readonly signal: AbortSignal;
  /** Resolves when there is room for more. Rejects where nobody takes events any more. */
  emit(event: AgentEvent): Promise<void>;
  /** Asks a person, by way of the daemon. It also resolves where the turn is stopped, as not allowed. */
  permit(request: AgentPermissionRequest): Promise<PermissionAnswer>;
}

export interface AgentPermissionRequest {
  readonly item?: string;
  readonly tool: string;
  readonly summary: string;
  readonly input?: unknown;
  readonly pattern?: string;
  /** Set where the agent asks a question in words rather than for leave. */
  readonly question?: {
    readonly text: string;
    readonly options?: readonly { readonly label: string; readonly description?: string }[];
  };
}

export interface PermissionAnswer {
  readonly allowed: boolean;
  readonly reason?: string | undefined;
  /** Of a question. */
  readonly text?: string | undefined;
}

export interface TurnOutcome {
  readonly status: 'completed' | 'failed' | 'cancelled';
  readonly conversation?: string;
  readonly usage?: TokenUsage;
  readonly error?: AgentFailure;
}

export interface Agent {
  readonly name: AgentName;
  /** Runs one turn to its end. Failures of provider and agent are outcomes, not rejections. */
  prompt(turn: AgentTurn): Promise<TurnOutcome>;
  /** The conversation as the agent keeps it, its subagents' included; undefined where there is none. */
  readTranscript(conversation: string): Promise<string | undefined>;
  /** Puts a conversation where the agent looks for it. An older one never replaces a newer one. */
  writeTranscript(conversation: string, text: string): Promise<boolean>;
  close(): Promise<void>;
}

/** One for each agent, loaded only where it is used. */
export interface AgentAdapter {
  readonly name: AgentName;
  /** Which of the gateway's providers it speaks to. */
  readonly provider: 'anthropic' | 'openai' | 'gemini';
  open(setup: AgentSetup): Promise<Agent>;
  /**
   * The events of all turns of a transcript, as the live stream would have told them, with the beginning and the end of
   * each turn, which live the daemon tells. Ids of turns are those of the live stream.
   */
  eventsOf(transcript: string): AgentLogEvent[];
}
