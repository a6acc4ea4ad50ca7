/** What a session with a coding agent can do beside running code. Agents are at home in a server. */

import type { AgentLogEvent } from '../protocol/agent-events.ts';
import type { CodingAgent, PermissionDecision, PermissionInfo, Transcript } from '../protocol/api/agent-routes.ts';
import type { AgentName, PermissionMode, TurnInfo } from '../protocol/turn.ts';

export interface PromptOptions {
  /** That of the turn before, else `claude`. */
  readonly agent?: AgentName;
  readonly mode?: PermissionMode;
  readonly model?: string;
  /** Those of the agent's own tools that it may use in this turn; without it, all. */
  readonly tools?: readonly string[];
  /** Of the turn, once it runs; 0 means no limit. */
  readonly timeoutMs?: number;
  /** `refuse`: `TURN_RUNNING` where another turn runs. By default it waits for its turn. */
  readonly onBusy?: 'queue' | 'refuse';
  readonly profile?: string;
  /** Stops the turn. */
  readonly signal?: AbortSignal;
}

/** The events of one turn as they come; they end with its `turn_ended`. */
export type TurnEvent = AgentLogEvent & { readonly seq: number; readonly at: number };

export interface AgentApi {
  /** The agents that there are, and whether they can be prompted here. */
  agents(): Promise<readonly CodingAgent[]>;
  /** Tells that a prompt is about to come, so that it need not wait for its executor. False where there is no room for one. */
  warmAgent(agent: AgentName): Promise<boolean>;
  /** Iterate over it for the events, or take `turn` alone: how it ended, which is also told where it failed. */
  prompt(prompt: string, options?: PromptOptions): PromptedTurn;
  /** Stops the turn that runs, also while a permission waits. The turns that were stopped. */
  stop(options?: { readonly turn?: string; readonly all?: boolean }): Promise<readonly string[]>;
  transcript(options?: { readonly conversation?: string }): Promise<Transcript>;
  /** What was asked for, oldest first. */
  permissions(options?: { readonly state?: 'pending' | 'resolved' }): Promise<readonly PermissionInfo[]>;
  /** `ALREADY_RESOLVED` where somebody was faster: who, and what, is in its `details`. */
  decidePermission(id: string, decision: PermissionDecision): Promise<PermissionInfo>;
}

export interface PromptedTurn extends AsyncIterable<TurnEvent> {
  readonly turn: Promise<TurnInfo>;
}
