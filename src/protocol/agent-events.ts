/** What a coding agent does, in the same words for every agent: events of the session log. */

import { z } from 'zod';
import { OutputFile } from './execution-events.ts';
import { AgentFailure, AgentName, PermissionId, PermissionMode, TokenUsage, TurnId, TurnStatus } from './turn.ts';

const ofTurn = { turn: TurnId };
/** `item` is the agent's own name for it, unique in its turn. */
const ofItem = { turn: TurnId, item: z.string().min(1).max(200) };

/** Set where texts were too large for an event: they are in the file as a whole, as JSON by field, and here cut. */
const bounded = { file: OutputFile.optional() };

/** The agent's own conversation: what it is resumed by, and what it says of itself. */
const AgentSession = z.object({
  type: z.literal('agent_session'),
  ...ofTurn,
  agent: AgentName,
  conversation: z.string(),
  model: z.string().optional(),
  tools: z.array(z.string()).optional(),
});

/** A prompt that waits: for so many before it, of which one may be running. */
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
  /** Who asked for it: the id of a user. */
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

/** `parent`: the subagent that it is part of. `tool` and `input`: of a tool and of a subagent. */
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

/** More of its text: what it says, thinks, or writes while it runs. */
const ItemDelta = z.object({ type: z.literal('item_delta'), ...ofItem, text: z.string() });

/** All of it: it stands in place of what the deltas said. */
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

const Plan = z.object({
  type: z.literal('plan'),
  ...ofTurn,
  entries: z.array(z.object({ text: z.string(), status: z.enum(['pending', 'in_progress', 'completed']) })),
});

/** A file of the workspace, by its path in it. */
const FileChanged = z.object({
  type: z.literal('file_changed'),
  ...ofTurn,
  item: z.string().optional(),
  path: z.string(),
  change: z.enum(['created', 'modified', 'deleted']),
});

/** Somebody has to allow it. `turn`: of an agent; `execution`: of a tool that a kernel's code has called. */
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
  /** Of a kernel's tool. */
  recipe: z.string().optional(),
  /** What the agent thinks that a rule could say that allows it always. */
  pattern: z.string().optional(),
  /** What a rule says that allows this again and nothing else; without it there can be no rule. */
  exactly: z.string().optional(),
  /** Milliseconds since 1970; without it, it waits for ever. */
  expiresAt: z.number().optional(),
});

export const PermissionOutcome = z.enum(['allowed', 'denied', 'timed_out', 'cancelled']);
export type PermissionOutcome = z.infer<typeof PermissionOutcome>;

const PermissionResolved = z.object({
  type: z.literal('permission_resolved'),
  id: PermissionId,
  turn: TurnId.optional(),
  execution: z.string().optional(),
  outcome: PermissionOutcome,
  scope: z.enum(['once', 'session', 'always']).optional(),
  reason: z.string().optional(),
  /** The answer to a question. */
  text: z.string().optional(),
  /** The id of the user who decided, or of the rule that did. */
  by: z.string().optional(),
});

/** The agent asks the person something. It is answered like a permission, with the text of the answer. */
const Question = z.object({
  type: z.literal('question'),
  ...ofTurn,
  id: PermissionId,
  text: z.string(),
  options: z.array(z.object({ label: z.string(), description: z.string().optional() })).optional(),
});

const Usage = z.object({ type: z.literal('usage'), ...ofTurn, usage: TokenUsage });
const Notice = z.object({ type: z.literal('agent_notice'), ...ofTurn, text: z.string() });
const Failed = z.object({ type: z.literal('agent_error'), ...ofTurn, error: AgentFailure });
/** An event of the agent's own that has no words here: kept as it came. */
const Raw = z.object({
  type: z.literal('agent_raw'),
  ...ofTurn,
  ...bounded,
  agent: AgentName,
  native: z.unknown(),
});
/** The sandbox tried to reach a host that its policy does not name. */
const NetworkDenied = z.object({
  type: z.literal('network_denied'),
  turn: TurnId.optional(),
  host: z.string(),
  port: z.int(),
  reason: z.string(),
  /** How many others were denied since the last event. */
  more: z.int().optional(),
});

/** What an adapter says while a turn runs; the server adds the rest. */
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

/** All that the log of a session says of agents and permissions. */
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
