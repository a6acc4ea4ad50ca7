/** What the events of a session's agents add up to: the state that server, client and console show. */

import { z } from 'zod';
import { type AgentLogEvent, ItemKind, PermissionOutcome } from './events.ts';
import { AgentFailure, AgentName, PermissionMode, TokenUsage, TurnStatus } from './names.ts';

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

const text = z.string();

const maybe = z.string().optional();

const ItemSchema: z.ZodType<ItemState> = z
  .lazy(() =>
    z.looseObject({
      ...{ id: text, kind: ItemKind, text, tool: maybe, title: maybe, output: maybe },
      status: z.enum(['running', 'completed', 'failed', 'denied', 'cancelled']),
      input: z.unknown().optional(),
      items: z.array(ItemSchema),
    }),
  )
  .meta({ id: 'ConversationItem' });

const TurnSchema = z.looseObject({
  ...{ id: text, prompt: text, model: maybe, by: maybe },
  agent: AgentName.optional(),
  mode: PermissionMode.optional(),
  status: z.enum(['running', ...TurnStatus.options]),
  items: z.array(ItemSchema),
  notices: z.array(text),
  usage: TokenUsage.optional(),
  error: AgentFailure.optional(),
});

const QuestionSchema = z.object({
  text,
  options: z.array(z.object({ label: text, description: maybe })).optional(),
});

const PermissionSchema = z.looseObject({
  ...{ id: text, turn: maybe, execution: maybe, item: maybe, tool: text, summary: text },
  ...{ pattern: maybe, reason: maybe, by: maybe },
  input: z.unknown().optional(),
  expiresAt: z.number().optional(),
  question: QuestionSchema.optional(),
  outcome: z.enum(['pending', ...PermissionOutcome.options]),
  scope: z.enum(['once', 'session', 'always']).optional(),
});

const StateSchema: z.ZodType<ConversationState> = z
  .object({
    status: z.enum(['idle', 'running', 'waiting']),
    conversation: maybe,
    turns: z.array(TurnSchema),
    plan: z.array(z.object({ text, status: z.enum(['pending', 'in_progress', 'completed']) })),
    files: z.array(z.object({ path: text, change: z.enum(['created', 'modified', 'deleted']) })),
    permissions: z.array(PermissionSchema),
    denied: z.array(z.object({ host: text, port: z.int(), reason: text })),
    usage: TokenUsage.omit({ model: true }),
  })
  .meta({ id: 'ConversationState' });

/** `seq` is the number of the last event in it: with those after it, it goes on. */
export const Conversation = z.object({ seq: z.int(), state: StateSchema });

export type Conversation = z.infer<typeof Conversation>;
