/**
 * The conversation of a session and the reducer that makes it from events, for server, client and console. The reducer is
 * pure, and parts that do not change stay the same objects.
 */

import { z } from 'zod';
import { omitUndefined } from '../lib/values.ts';
import {
  AgentLogEvent,
  FileChangeKind,
  ItemKind,
  PermissionOutcome,
  PermissionScope,
  PlanEntry,
  questionFields,
} from './agent-events.ts';
import type { PermissionRequest } from './permission.ts';
import { AgentFailure, AgentName, PermissionMode, TokenUsage, TurnStatus } from './turn.ts';

type LogEventOf<Type extends AgentLogEvent['type']> = Extract<AgentLogEvent, { type: Type }>;

type ItemStatus = 'running' | LogEventOf<'item_completed'>['status'];

interface ConversationItem {
  readonly id: string;
  readonly kind: ItemKind;
  readonly status: ItemStatus;
  readonly tool?: string | undefined;
  readonly title?: string | undefined;
  readonly input?: unknown;
  /** A message or reasoning. */
  readonly text: string;
  /** The result of a tool or subagent. */
  readonly output?: string | undefined;
  /** The items of a subagent. */
  readonly items: readonly ConversationItem[];
}

export interface ConversationTurn {
  readonly id: string;
  readonly agent?: AgentName | undefined;
  readonly prompt: string;
  readonly mode?: PermissionMode | undefined;
  readonly model?: string | undefined;
  readonly by?: string | undefined;
  readonly status: 'running' | TurnStatus;
  readonly items: readonly ConversationItem[];
  readonly notices: readonly string[];
  readonly usage?: TokenUsage | undefined;
  readonly error?: AgentFailure | undefined;
}

interface ConversationPermission extends Readonly<PermissionRequest> {
  readonly id: string;
  readonly turn?: string | undefined;
  readonly execution?: string | undefined;
  readonly expiresAt?: number | undefined;
  readonly outcome: 'pending' | PermissionOutcome;
  readonly scope?: PermissionScope | undefined;
  readonly reason?: string | undefined;
  readonly by?: string | undefined;
}

interface ConversationFile {
  readonly path: string;
  readonly change: z.infer<typeof FileChangeKind>;
}

export interface ConversationState {
  /** `waiting`: for a person. */
  readonly status: 'idle' | 'running' | 'waiting';
  /** The agent's own name for its last conversation. */
  readonly conversation?: string | undefined;
  readonly turns: readonly ConversationTurn[];
  /** The latest one. */
  readonly plan: LogEventOf<'plan'>['entries'];
  /** What agents have changed, by path. */
  readonly files: readonly ConversationFile[];
  readonly permissions: readonly ConversationPermission[];
  /** Attempts to reach hosts that the policy does not list. */
  readonly denied: readonly Pick<LogEventOf<'network_denied'>, 'host' | 'port' | 'reason'>[];
  /** The total of all turns. */
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

const optionalText = z.string().optional();

const ItemSchema: z.ZodType<ConversationItem> = z
  .lazy(() =>
    z.looseObject({
      ...{ id: text, kind: ItemKind, text, tool: optionalText, title: optionalText, output: optionalText },
      status: z.enum(['running', 'completed', 'failed', 'denied', 'cancelled']),
      input: z.unknown().optional(),
      items: z.array(ItemSchema),
    }),
  )
  .meta({ id: 'ConversationItem' });

const TurnSchema = z.looseObject({
  ...{ id: text, prompt: text, model: optionalText, by: optionalText },
  agent: AgentName.optional(),
  mode: PermissionMode.optional(),
  status: z.enum(['running', ...TurnStatus.options]),
  items: z.array(ItemSchema),
  notices: z.array(text),
  usage: TokenUsage.optional(),
  error: AgentFailure.optional(),
});

const PermissionSchema = z.looseObject({
  ...{ id: text, turn: optionalText, execution: optionalText, item: optionalText, tool: text, summary: text },
  ...{ pattern: optionalText, reason: optionalText, by: optionalText },
  input: z.unknown().optional(),
  expiresAt: z.number().optional(),
  question: z.object(questionFields).optional(),
  outcome: z.enum(['pending', ...PermissionOutcome.options]),
  scope: PermissionScope.optional(),
});

const StateSchema: z.ZodType<ConversationState> = z
  .object({
    status: z.enum(['idle', 'running', 'waiting']),
    conversation: optionalText,
    turns: z.array(TurnSchema),
    plan: z.array(PlanEntry),
    files: z.array(z.object({ path: text, change: FileChangeKind })),
    permissions: z.array(PermissionSchema),
    denied: z.array(z.object({ host: text, port: z.int(), reason: text })),
    usage: TokenUsage.omit({ model: true }),
  })
  .meta({ id: 'ConversationState' });

/** `seq` is the number of the last event in it; reduce later events to continue. */
export const Conversation = z.object({ seq: z.int(), state: StateSchema });

export type Conversation = z.infer<typeof Conversation>;

const MOST_NOTICES = 1000;
/** A state keeps the newest of each. Every event looks through them, and runners send as many as they like. */
const MOST_TURNS = 1000;
const MOST_PERMISSIONS = 1000;
/** Per turn, with those of subagents. */
const MOST_ITEMS = 10_000;
/** By path: files that change when there are so many already are left out. */
const MOST_FILES = 10_000;

export function reduce(state: ConversationState, event: AgentLogEvent): ConversationState {
  return withStatus(step(state, event));
}

function step(state: ConversationState, event: AgentLogEvent): ConversationState {
  switch (event.type) {
    case 'turn_queued':
      return state; // a queued prompt is not part of the conversation yet
    case 'turn_started': {
      const { type, turn, ...facts } = event;
      return inTurn(state, turn, (old) => ({ ...old, ...omitUndefined(facts), status: 'running' }));
    }
    case 'turn_ended': {
      const { turn, status, usage, error } = event;
      const ended = inTurn(withUsage(state, turn, usage), turn, (old) => ({
        ...old,
        status,
        items: endItems(old.items, status === 'completed' ? 'completed' : 'cancelled'),
        ...(error ? { error } : {}),
      }));
      // Permissions that were pending when the server ended can still be decided.
      if (status === 'interrupted') return ended;
      const permissions = ended.permissions.map((one) =>
        one.turn === turn && one.outcome === 'pending' ? ({ ...one, outcome: 'cancelled' } as const) : one,
      );
      return { ...ended, permissions };
    }
    case 'agent_session': {
      const { turn, agent, conversation, model } = event;
      const next = { ...state, conversation };
      return inTurn(next, turn, (old) => ({ ...old, agent, model: model ?? old.model }));
    }
    case 'item_started':
    case 'item_delta':
    case 'item_completed':
      return inTurn(state, event.turn, (old) => ({ ...old, items: itemsAfter(old.items, event) }));
    case 'plan':
      return { ...state, plan: event.entries };
    case 'file_changed':
      return { ...state, files: filesAfter(state.files, event) };
    case 'usage':
      return withUsage(state, event.turn, event.usage);
    case 'agent_notice':
      return inTurn(state, event.turn, (old) => ({
        ...old,
        notices: [...old.notices, event.text].slice(-MOST_NOTICES),
      }));
    case 'agent_error':
      return inTurn(state, event.turn, (old) => ({ ...old, error: event.error }));
    case 'permission_requested':
    case 'permission_resolved': {
      const { type, ...facts } = event;
      return withPermission(state, event.id, (old) => ({ ...old, ...omitUndefined(facts) }));
    }
    case 'question': {
      const { id, turn, text, options } = event;
      const question = { text, options };
      return withPermission(state, id, (old) => ({ ...old, turn, summary: old.summary || text, question }));
    }
    case 'network_denied': {
      const { host, port, reason } = event;
      return { ...state, denied: [...state.denied, { host, port, reason }].slice(-MOST_NOTICES) };
    }
    case 'agent_raw':
      return state;
  }
}

type ItemEvent = Extract<AgentLogEvent, { type: 'item_started' | 'item_delta' | 'item_completed' }>;

function itemsAfter(items: ConversationTurn['items'], event: ItemEvent): ConversationTurn['items'] {
  const { item: id } = event;
  if (event.type === 'item_delta') {
    return changeOrAdd(items, { id }, (old) => ({ ...old, text: old.text + event.text }));
  }
  const { type, turn, item, parent, ...facts } = event;
  const [status, text] = event.type === 'item_started' ? (['running'] as const) : [event.status, event.text];
  const change = (old: ConversationItem) => ({ ...old, ...omitUndefined(facts), status, text: text ?? old.text });
  return changeOrAdd(items, { id, parent }, change);
}

/** Adds the item if there is none, and leaves out the oldest ones if there are too many. */
function changeOrAdd(
  items: Items,
  { id, parent }: { readonly id: string; readonly parent?: string | undefined },
  change: (item: ConversationItem) => ConversationItem,
): Items {
  const changed = changeItem(items, id, change);
  if (changed !== items) return changed;
  const kept = countItems(items) < MOST_ITEMS ? items : items.slice(1);
  const added = change({ id, kind: 'message', status: 'running', text: '', items: [] });
  return addItem(kept, added, parent);
}

/** Also for a turn whose start is no longer in the log. */
function inTurn(
  state: ConversationState,
  id: string,
  change: (turn: ConversationTurn) => ConversationTurn,
): ConversationState {
  const at = state.turns.findLastIndex((turn) => turn.id === id);
  const old = state.turns[at];
  if (old) return { ...state, turns: state.turns.with(at, change(old)) };
  const begun: ConversationTurn = { id, prompt: '', status: 'running', items: [], notices: [] };
  return { ...state, turns: [...state.turns, change(begun)].slice(-MOST_TURNS) };
}

/** A turn's usage is reported several times, always as a total. */
function withUsage(state: ConversationState, id: string, usage: TokenUsage | undefined): ConversationState {
  if (!usage) return state;
  const next = inTurn(state, id, (old) => ({ ...old, usage }));
  const sum = (field: 'input' | 'output' | 'cacheRead' | 'cacheWrite' | 'costUsd') =>
    next.turns.reduce((total, turn) => total + (turn.usage?.[field] ?? 0), 0);
  const [input, output, cacheRead, cacheWrite] = [sum('input'), sum('output'), sum('cacheRead'), sum('cacheWrite')];
  return { ...next, usage: { input, output, cacheRead, cacheWrite, costUsd: sum('costUsd') } };
}

/** Sorted by path. A file that was created and then modified counts as created. */
function filesAfter(
  files: ConversationState['files'],
  { path, change }: Extract<AgentLogEvent, { type: 'file_changed' }>,
): ConversationState['files'] {
  let [at, end] = [0, files.length];
  while (at < end) {
    const middle = (at + end) >>> 1;
    if ((files[middle]?.path ?? '') < path) at = middle + 1;
    else end = middle;
  }
  const before = files[at]?.path === path ? files[at]?.change : undefined;
  if (before === undefined) return files.length < MOST_FILES ? files.toSpliced(at, 0, { path, change }) : files;
  return files.with(at, { path, change: before === 'created' && change === 'modified' ? before : change });
}

function withPermission(
  state: ConversationState,
  id: string,
  change: (permission: ConversationPermission) => ConversationPermission,
): ConversationState {
  const at = state.permissions.findLastIndex((permission) => permission.id === id);
  const old = state.permissions[at];
  if (old) return { ...state, permissions: state.permissions.with(at, change(old)) };
  const asked: ConversationPermission = { id, tool: '', summary: '', outcome: 'pending' };
  return { ...state, permissions: [...withRoom(state.permissions), change(asked)] };
}

/** Leaves out the oldest one that was decided, if there are too many. */
function withRoom(permissions: ConversationState['permissions']): ConversationState['permissions'] {
  if (permissions.length < MOST_PERMISSIONS) return permissions;
  const oldest = permissions.findIndex(({ outcome }) => outcome !== 'pending');
  return permissions.toSpliced(Math.max(0, oldest), 1);
}

function withStatus(state: ConversationState): ConversationState {
  const waits = state.permissions.some(({ outcome }) => outcome === 'pending');
  const runs = state.turns.some((turn) => turn.status === 'running');
  const status = waits ? 'waiting' : runs ? 'running' : 'idle';
  return status === state.status ? state : { ...state, status };
}

type Items = readonly ConversationItem[];

const MAX_DEPTH = 16;

function depthOf(items: Items, id: string): number | undefined {
  for (const item of items) {
    if (item.id === id) return 1;
    const within = depthOf(item.items, id);
    if (within !== undefined) return within + 1;
  }
  return undefined;
}

function countItems(items: Items): number {
  let count = items.length;
  for (const item of items) if (item.items.length > 0) count += countItems(item.items);
  return count;
}

/** The others stay the same objects, and all of them if there is no such item. Searches from the end, where new items are. */
function changeItem(items: Items, id: string, change: (item: ConversationItem) => ConversationItem): Items {
  for (let at = items.length - 1; at >= 0; at -= 1) {
    const item = items[at];
    if (!item) continue;
    if (item.id === id) return items.with(at, change(item));
    if (item.items.length === 0) continue;
    const within = changeItem(item.items, id, change);
    if (within !== item.items) return items.with(at, { ...item, items: within });
  }
  return items;
}

/** If the subagent is unknown or nested too deeply, the item belongs to the turn itself. */
function addItem(items: Items, item: ConversationItem, parent: string | undefined): Items {
  const depth = parent === undefined ? undefined : depthOf(items, parent);
  if (parent === undefined || depth === undefined || depth >= MAX_DEPTH) return [...items, item];
  return changeItem(items, parent, (above) => ({ ...above, items: [...above.items, item] }));
}

/** Ends open items with the turn. */
function endItems(items: Items, status: 'completed' | 'cancelled'): Items {
  return items.map((item) => {
    const within = endItems(item.items, status);
    const same = item.status !== 'running' && within.every((one, at) => one === item.items[at]);
    return same ? item : { ...item, items: within, status: item.status === 'running' ? status : item.status };
  });
}

const types: ReadonlySet<string> = new Set(AgentLogEvent.options.flatMap(({ shape }) => [...shape.type.values]));

/** The number and time of an event are not part of the state. */
export function reduceLogged(state: ConversationState, logged: { readonly type: string }): ConversationState {
  const event = types.has(logged.type) ? AgentLogEvent.safeParse(logged) : undefined;
  return event?.success ? reduce(state, event.data) : state;
}
