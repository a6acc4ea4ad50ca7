/** What the events of a session's agents add up to: the state that server, client and console show. */

import type { AgentFailure, AgentLogEvent, ItemKind, PermissionOutcome } from './events.ts';
import type { AgentName, PermissionMode, TokenUsage, TurnStatus } from './names.ts';

type Of<Type extends AgentLogEvent['type']> = Extract<AgentLogEvent, { type: Type }>;

export type ItemStatus = 'running' | Of<'item_completed'>['status'];

export interface ItemState {
  readonly id: string;
  readonly kind: ItemKind;
  readonly status: ItemStatus;
  readonly tool?: string | undefined;
  readonly title?: string | undefined;
  readonly input?: unknown;
  /** What it says or thinks. */
  readonly text: string;
  /** What a tool or subagent gave back. */
  readonly output?: string | undefined;
  /** Of a subagent. */
  readonly items: readonly ItemState[];
}

export interface TurnState {
  readonly id: string;
  readonly agent?: AgentName | undefined;
  readonly prompt: string;
  readonly mode?: PermissionMode | undefined;
  readonly model?: string | undefined;
  readonly by?: string | undefined;
  readonly status: 'running' | TurnStatus;
  readonly items: readonly ItemState[];
  readonly notices: readonly string[];
  readonly usage?: TokenUsage | undefined;
  readonly error?: AgentFailure | undefined;
}

export interface PermissionState {
  readonly id: string;
  readonly turn?: string | undefined;
  readonly execution?: string | undefined;
  readonly item?: string | undefined;
  readonly tool: string;
  readonly summary: string;
  readonly input?: unknown;
  readonly pattern?: string | undefined;
  readonly expiresAt?: number | undefined;
  /** Set where it is a question in words: answered with a text. */
  readonly question?: Pick<Of<'question'>, 'text' | 'options'> | undefined;
  readonly outcome: 'pending' | PermissionOutcome;
  readonly scope?: Of<'permission_resolved'>['scope'];
  readonly reason?: string | undefined;
  readonly by?: string | undefined;
}

export interface FileState {
  readonly path: string;
  readonly change: Of<'file_changed'>['change'];
}

export interface ConversationState {
  /** `waiting`: for a person. */
  readonly status: 'idle' | 'running' | 'waiting';
  /** The agent's own name of its last conversation. */
  readonly conversation?: string | undefined;
  readonly turns: readonly TurnState[];
  /** As it was last told. */
  readonly plan: Of<'plan'>['entries'];
  /** All that agents have changed, by path. */
  readonly files: readonly FileState[];
  readonly permissions: readonly PermissionState[];
  /** Attempts to reach hosts that the policy does not name. */
  readonly denied: readonly Pick<Of<'network_denied'>, 'host' | 'port' | 'reason'>[];
  /** Of all turns. */
  readonly usage: Omit<TokenUsage, 'model'>;
}

export const emptyConversation: ConversationState = {
  status: 'idle',
  turns: [],
  plan: [],
  files: [],
  permissions: [],
  denied: [],
  usage: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, costUsd: 0 },
};
