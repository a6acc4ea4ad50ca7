/** Somewhere an agent works: what the contract suite needs of it. A new place brings an OpenPlace and nothing else. */

import type { PermissionAnswer, PermissionAsk, TurnOutcome } from '../../src/agents/contract.ts';
import type { AgentEvent } from '../../src/protocol/agent/events.ts';
import type { PermissionMode } from '../../src/protocol/agent/names.ts';
import type { AgentProfile } from '../../src/protocol/agent/profile.ts';

export interface PlaceOptions {
  /** Where the stand-in model listens on the host. */
  readonly modelUrl: string;
  /** `workspace` is where the agent sees its workspace; `node` a Node that it can run. */
  profile(inside: { readonly workspace: string; readonly node: string }): AgentProfile;
}

export interface PlaceTurn {
  readonly mode?: PermissionMode;
  readonly model?: string;
  readonly conversation?: string | undefined;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
  readonly onEvent?: (event: AgentEvent) => void;
  /** Without it, nobody is expected to be asked. */
  readonly permit?: (ask: PermissionAsk) => Promise<PermissionAnswer>;
}

export interface PlaceOutcome extends Omit<TurnOutcome, 'status'> {
  readonly status: TurnOutcome['status'] | 'timed_out';
  readonly turn: string;
  readonly events: readonly AgentEvent[];
}

export interface Place extends AsyncDisposable {
  /** The workspace as the host sees it, and as the agent does. */
  readonly workspace: string;
  readonly inside: string;
  /** Isolated environments take the mode `bypass`; an adapter by itself does not ask where it is. */
  readonly takesBypass: boolean;
  prompt(prompt: string, turn?: PlaceTurn): Promise<PlaceOutcome>;
  transcript(conversation: string): Promise<string | undefined>;
  /** Ends everything that runs there; files stay, and the next prompt starts anew. */
  restart(): Promise<void>;
  /** Ends the agent's program without a word, as the system does where memory runs out. */
  killAgent(): Promise<void>;
}

export type OpenPlace = (options: PlaceOptions) => Promise<Place>;
