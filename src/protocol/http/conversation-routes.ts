/** What the agents of a session have done so far, added up: what a screen shows before it goes on with the events. */

import { z } from 'zod';
import type { ConversationState, ItemState } from '../agent/conversation.ts';
import { AgentFailure, ItemKind, PermissionOutcome } from '../agent/events.ts';
import { AgentName, PermissionMode, TokenUsage, TurnStatus } from '../agent/names.ts';
import { endpoint } from './endpoint.ts';

const text = z.string();
const maybe = z.string().optional();

const Item: z.ZodType<ItemState> = z
  .lazy(() =>
    z.looseObject({
      ...{ id: text, kind: ItemKind, text, tool: maybe, title: maybe, output: maybe },
      status: z.enum(['running', 'completed', 'failed', 'denied', 'cancelled']),
      input: z.unknown().optional(),
      items: z.array(Item),
    }),
  )
  .meta({ id: 'ConversationItem' });

const Turn = z.looseObject({
  ...{ id: text, prompt: text, model: maybe, by: maybe },
  agent: AgentName.optional(),
  mode: PermissionMode.optional(),
  status: z.enum(['running', ...TurnStatus.options]),
  items: z.array(Item),
  notices: z.array(text),
  usage: TokenUsage.optional(),
  error: AgentFailure.optional(),
});

const Question = z.object({
  text,
  options: z.array(z.object({ label: text, description: maybe })).optional(),
});

const Permission = z.looseObject({
  ...{ id: text, turn: maybe, execution: maybe, item: maybe, tool: text, summary: text },
  ...{ pattern: maybe, reason: maybe, by: maybe },
  input: z.unknown().optional(),
  expiresAt: z.number().optional(),
  question: Question.optional(),
  outcome: z.enum(['pending', ...PermissionOutcome.options]),
  scope: z.enum(['once', 'session', 'always']).optional(),
});

const State: z.ZodType<ConversationState> = z
  .object({
    status: z.enum(['idle', 'running', 'waiting']),
    conversation: maybe,
    turns: z.array(Turn),
    plan: z.array(z.object({ text, status: z.enum(['pending', 'in_progress', 'completed']) })),
    files: z.array(z.object({ path: text, change: z.enum(['created', 'modified', 'deleted']) })),
    permissions: z.array(Permission),
    denied: z.array(z.object({ host: text, port: z.int(), reason: text })),
    usage: TokenUsage.omit({ model: true }),
  })
  .meta({ id: 'ConversationState' });

/** `seq` is the number of the last event in it: with those after it, it goes on. */
export const Conversation = z.object({ seq: z.int(), state: State });
export type Conversation = z.infer<typeof Conversation>;

export const ReadConversation = endpoint(
  'get /v1/sessions/{id}/conversation',
  'Agents',
  { kind: 'session', right: 'view' },
  {
    summary:
      'What the agents of a session have done, as the kept events add up: turns, items, plan, files, permissions',
    result: Conversation,
  },
);
