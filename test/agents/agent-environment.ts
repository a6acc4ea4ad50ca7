/** The environment of an agent, as the contract suite needs it. A new one brings an OpenAgentEnvironment and nothing else. */

import type { AgentLogEvent } from '../../src/protocol/agent-events.ts';
import type { AgentProfile } from '../../src/protocol/agent-profile.ts';
import type { PermissionAnswer, PermissionRequest } from '../../src/protocol/permission.ts';
import type { PermissionMode, TurnResult, TurnState } from '../../src/protocol/turn.ts';

export interface AgentEnvironmentOptions {
  /** Where the stand-in model listens on the host. */
  readonly modelUrl: string;
  /** `workspace` is where the agent sees its workspace; `node` a Node that it can run. */
  profile(inside: { readonly workspace: string; readonly node: string }): AgentProfile;
}

export interface EnvironmentTurn {
  readonly mode?: PermissionMode;
  readonly model?: string;
  /** One to go on with; without it, it is up to the place whether it begins another. */
  readonly conversation?: string | undefined;
  /** Whether the profile matters: without it, a place may leave out what takes time to start. */
  readonly profiled?: boolean;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
  readonly onEvent?: (event: AgentLogEvent) => void;
  /** Without it, nobody is expected to be asked. */
  readonly permit?: (ask: PermissionRequest) => Promise<PermissionAnswer>;
}

export interface TurnOutcome extends Omit<TurnResult, 'status'> {
  readonly status: TurnState;
  readonly turn: string;
  readonly events: readonly AgentLogEvent[];
}

export interface AgentEnvironment extends AsyncDisposable {
  /** The workspace as the host sees it, and as the agent does. */
  readonly workspace: string;
  readonly inside: string;
  /** Isolated environments take the mode `bypass`; an adapter by itself does not ask where it is. */
  readonly takesBypass: boolean;
  prompt(prompt: string, turn?: EnvironmentTurn): Promise<TurnOutcome>;
  /** The value of code that runs in the kernel of the session, where it has one. */
  run(code: string): Promise<unknown>;
  transcript(conversation: string): Promise<string | undefined>;
  /** Ends everything that runs there; files stay, and the next prompt starts anew. */
  restart(): Promise<void>;
  /** Ends the agent's program without a word, as the system does where memory runs out. */
  killAgent(): Promise<void>;
}

export type OpenAgentEnvironment = (options: AgentEnvironmentOptions) => Promise<AgentEnvironment>;
