/** Events of the session log about coding agents and permissions; the same for every agent. */

import { z } from 'zod';
import { OutputFile } from './execution-events.ts';
import { boundedList } from './parse.ts';
import { AgentFailure, AgentName, PermissionId, PermissionMode, TokenUsage, TurnId, TurnStatus } from './turn.ts';

/** Far more than any agent has. */
const MOST_TOOLS = 10_000;
const MOST_ENTRIES = 2000;

const ofTurn = { turn: TurnId };
/** `item` is the agent's own name for it, unique in its turn. */
const ofItem = { turn: TurnId, item: z.string().min(1).max(200) };

/** Set if texts were too long for an event: they are truncated here, and whole in the file, as JSON by field. */
const bounded = { file: OutputFile.optional() };

/** The agent's own name for its conversation, and what it says about itself. */
const AgentSession = z.object({
  type: z.literal('agent_session'),
  ...ofTurn,
  agent: AgentName,
  conversation: z.string(),
  model: z.string().optional(),
  tools: boundedList(z.array(z.string()).max(MOST_TOOLS), MOST_TOOLS).optional(),
});

/** A prompt that waits for `ahead` others; one of them may be running. */
const TurnQueued = z.object({
  type: z.literal('turn_queued'),
  ...ofTurn,
  ahead: z.int().min(1),
  running: TurnId.optional(),
});

const TurnStarted = z.object({
  type: z.literal('turn_started'),
  ...ofTurn,
  ...bounded,
  agent: AgentName,
  prompt: z.string(),
  mode: PermissionMode,
  model: z.string().optional(),
  /** The id of the user who prompted. */
  by: z.string().optional(),
});

const TurnEnded = z.object({
  type: z.literal('turn_ended'),
  ...ofTurn,
  status: TurnStatus,
  usage: TokenUsage.optional(),
  error: AgentFailure.optional(),
});

export const ItemKind = z.enum(['message', 'reasoning', 'tool', 'subagent']);
export type ItemKind = z.infer<typeof ItemKind>;

/** `parent`: the subagent that it belongs to. `tool` and `input` are for tools and subagents. */
const ItemStarted = z.object({
  type: z.literal('item_started'),
  ...ofItem,
  ...bounded,
  kind: ItemKind,
  parent: z.string().optional(),
  tool: z.string().optional(),
  title: z.string().optional(),
  input: z.unknown().optional(),
});

/** More text of an item. */
const ItemDelta = z.object({ type: z.literal('item_delta'), ...ofItem, text: z.string() });

/** The whole item. It replaces the deltas. */
const ItemCompleted = z.object({
  type: z.literal('item_completed'),
  ...ofItem,
  ...bounded,
  kind: ItemKind,
  parent: z.string().optional(),
  status: z.enum(['completed', 'failed', 'denied', 'cancelled']),
  text: z.string().optional(),
  tool: z.string().optional(),
  input: z.unknown().optional(),
  output: z.string().optional(),
});

export const PlanEntry = z.object({ text: z.string(), status: z.enum(['pending', 'in_progress', 'completed']) });

const Plan = z.object({
  type: z.literal('plan'),
  ...ofTurn,
  entries: boundedList(z.array(PlanEntry).max(MOST_ENTRIES), MOST_ENTRIES),
});

export const FileChangeKind = z.enum(['created', 'modified', 'deleted']);

/** A file, by its path in the workspace. */
const FileChanged = z.object({
  type: z.literal('file_changed'),
  ...ofTurn,
  item: z.string().optional(),
  path: z.string(),
  change: FileChangeKind,
});

/** A person must decide. `turn`: an agent asks. `execution`: a tool that kernel code called. */
const PermissionRequested = z.object({
  type: z.literal('permission_requested'),
  id: PermissionId,
  turn: TurnId.optional(),
  execution: z.string().optional(),
  item: z.string().optional(),
  tool: z.string(),
  /** For people to read: a command line, a path, a request. */
  summary: z.string(),
  input: z.unknown().optional(),
  /** Only for a tool that kernel code called. */
  recipe: z.string().optional(),
  /** A rule that the agent suggests. */
  pattern: z.string().optional(),
  /** The pattern of a rule that allows exactly this again. If undefined, there can be no rule. */
  exactly: z.string().optional(),
  /** Milliseconds since 1970. No limit if undefined. */
  expiresAt: z.number().optional(),
});

export const PermissionOutcome = z.enum(['allowed', 'denied', 'timed_out', 'cancelled']);
export type PermissionOutcome = z.infer<typeof PermissionOutcome>;

/** How long a permission lasts. */
export const PermissionScope = z.enum(['once', 'session', 'always']);
export type PermissionScope = z.infer<typeof PermissionScope>;

const PermissionResolved = z.object({
  type: z.literal('permission_resolved'),
  id: PermissionId,
  turn: TurnId.optional(),
  execution: z.string().optional(),
  outcome: PermissionOutcome,
  scope: PermissionScope.optional(),
  reason: z.string().optional(),
  /** The answer to a question. */
  text: z.string().optional(),
  /** The id of the user or of the rule that decided. */
  by: z.string().optional(),
});

/** What a question asks, and the answers that it suggests. */
export const questionFields = {
  text: z.string(),
  options: z.array(z.object({ label: z.string(), description: z.string().optional() })).optional(),
};

/** The agent asks a question. It is answered like a permission, with a text. */
const Question = z.object({ type: z.literal('question'), ...ofTurn, id: PermissionId, ...questionFields });

const Usage = z.object({ type: z.literal('usage'), ...ofTurn, usage: TokenUsage });
const Notice = z.object({ type: z.literal('agent_notice'), ...ofTurn, text: z.string() });
const Failed = z.object({ type: z.literal('agent_error'), ...ofTurn, error: AgentFailure });
/** An unknown event of the agent, unchanged. */
const Raw = z.object({ type: z.literal('agent_raw'), ...ofTurn, ...bounded, agent: AgentName, native: z.unknown() });
/** Code in the sandbox tried to reach a host that its policy does not list. */
const NetworkDenied = z.object({
  type: z.literal('network_denied'),
  turn: TurnId.optional(),
  host: z.string(),
  port: z.int(),
  reason: z.string(),
  /** How many others were denied since the last event. */
  more: z.int().optional(),
});

/** What an adapter reports while a turn runs. The server adds the rest. */
export const AgentEvent = z.discriminatedUnion('type', [
  AgentSession,
  ItemStarted,
  ItemDelta,
  ItemCompleted,
  Plan,
  FileChanged,
  Usage,
  Notice,
  Failed,
  Raw,
]);
export type AgentEvent = z.infer<typeof AgentEvent>;

/** All events of agents and permissions. */
export const AgentLogEvent = z.discriminatedUnion('type', [
  TurnQueued,
  TurnStarted,
  TurnEnded,
  ...AgentEvent.options,
  PermissionRequested,
  PermissionResolved,
  Question,
  NetworkDenied,
]);
export type AgentLogEvent = z.infer<typeof AgentLogEvent>;
