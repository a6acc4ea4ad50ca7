/** The port that every coding agent implements, modelled on the Agent Client Protocol. */

import type { AgentEvent, AgentLogEvent } from '../protocol/agent-events.ts';
import type { AgentProfile } from '../protocol/agent-profile.ts';
import type { PermissionAnswer, PermissionRequest } from '../protocol/permission.ts';
import type { AgentName, PromptFields, TurnResult } from '../protocol/turn.ts';

/** What an agent works with. Paths are those of its environment. */
export interface AgentSetup {
  readonly cwd: string;
  /** Its home: configuration and conversations. */
  readonly homeDir: string;
  /** The folder of its installed program. */
  readonly programDir: string;
  /** PATH and other common variables; never a key. */
  readonly env: Readonly<Record<string, string>>;
  /** Where model calls go, and the token to use as key. */
  readonly model: ModelAccess;
  readonly profile: AgentProfile;
}

export interface ModelAccess {
  /** The base URL of the gateway for this provider: `http://127.0.0.1:PORT/anthropic`. */
  readonly baseUrl: string;
  readonly key: string;
}

export interface AgentTurn extends Readonly<PromptFields> {
  readonly id: string;
  /** The conversation to continue; a new one if undefined. */
  readonly conversation?: string | undefined;
  /** Aborts when the turn must stop: it then ends soon, also while a permission is pending. */
  readonly signal: AbortSignal;
  /** Resolves when there is room for more. Rejects if events are not accepted any more. */
  emit(event: AgentEvent): Promise<void>;
  /** Asks a person, through the server. Resolves as not allowed when the turn is stopped, or `signal` aborts. */
  permit(request: PermissionRequest, signal?: AbortSignal): Promise<PermissionAnswer>;
}

export interface Agent {
  readonly name: AgentName;
  /** Runs one turn to its end. Failures of provider and agent are results. The runner decides whether a stop was the cause. */
  prompt(turn: AgentTurn): Promise<TurnResult>;
  /** The conversation as the agent stores it, with subagents; undefined if there is none. */
  readTranscript(conversation: string): Promise<string | undefined>;
  /** Writes a conversation where the agent finds it. An older one never replaces a newer one. */
  writeTranscript(conversation: string, text: string): Promise<boolean>;
  close(): Promise<void>;
}

/** One per agent, loaded when it is used. */
export interface AgentAdapter {
  readonly name: AgentName;
  /** The gateway's provider that it uses. */
  readonly provider: 'anthropic' | 'openai' | 'gemini';
  open(setup: AgentSetup): Promise<Agent>;
  /**
   * The events of all turns of a transcript, as the live stream would report them, with the start and end of each turn,
   * which the server adds to a live stream. Ids of turns are those of the live stream.
   */
  eventsOf(transcript: string): AgentLogEvent[];
}
