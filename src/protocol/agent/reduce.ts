/** The one reducer of server, client and console: the state after one more event. Pure; what stays the same is kept. */

import type { ConversationState, PermissionState, TurnState } from './conversation.ts';
import type { AgentLogEvent } from './events.ts';
import type { TokenUsage } from './names.ts';
import { addItem, changeItem, endItems, findItem } from './reduce-items.ts';

const MOST_NOTICES = 1000;

export function reduce(state: ConversationState, event: AgentLogEvent): ConversationState {
  return withStatus(step(state, event));
}

function step(state: ConversationState, event: AgentLogEvent): ConversationState {
  switch (event.type) {
    case 'turn_queued':
      return state; // what waits is no part of the conversation yet
    case 'turn_started': {
      const { type, turn, ...facts } = event;
      return inTurn(state, turn, (old) => ({ ...old, ...facts, status: 'running' }));
    }
    case 'turn_ended': {
      const { turn, status, usage, error } = event;
      const ended = inTurn(counted(state, turn, usage), turn, (old) => ({
        ...old,
        status,
        items: endItems(old.items, status === 'completed' ? 'completed' : 'cancelled'),
        ...(error ? { error } : {}),
      }));
      // What it waited for when its server ended can still be decided.
      if (status === 'interrupted') return ended;
      return { ...ended, permissions: ended.permissions.map((one) => (one.turn === turn ? closed(one) : one)) };
    }
    case 'agent_session': {
      const { turn, agent, conversation, model } = event;
      const next = { ...state, conversation };
      return inTurn(next, turn, (old) => ({ ...old, agent, ...(model === undefined ? {} : { model }) }));
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
      return counted(state, event.turn, event.usage);
    case 'agent_notice':
      return inTurn(state, event.turn, (old) => ({
        ...old,
        notices: [...old.notices, event.text].slice(-MOST_NOTICES),
      }));
    case 'agent_error':
      return inTurn(state, event.turn, (old) => ({ ...old, error: event.error }));
    case 'permission_requested': {
      const { type, ...facts } = event;
      return withPermission(state, event.id, (old) => ({ ...old, ...facts }));
    }
    case 'question': {
      const { id, turn, text, options } = event;
      const question = { text, ...(options ? { options } : {}) };
      return withPermission(state, id, (old) => ({ ...old, turn, summary: old.summary || text, question }));
    }
    case 'permission_resolved': {
      const { type, ...facts } = event;
      return withPermission(state, event.id, (old) => ({ ...old, ...facts }));
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

function itemsAfter(items: TurnState['items'], event: ItemEvent): TurnState['items'] {
  const { item: id } = event;
  if (event.type === 'item_delta') {
    const known = findItem(items, id) ? items : addItem(items, newItem(id), undefined);
    return changeItem(known, id, (old) => ({ ...old, text: old.text + event.text }));
  }
  const { type, turn, item, parent, ...facts } = event;
  const [status, text] = event.type === 'item_started' ? (['running'] as const) : [event.status, event.text];
  const known = findItem(items, id) ? items : addItem(items, newItem(id), parent);
  return changeItem(known, id, (old) => ({ ...old, ...facts, status, text: text ?? old.text }));
}

function newItem(id: string): TurnState['items'][number] {
  return { id, kind: 'message', status: 'running', text: '', items: [] };
}

/** Events of a turn whose beginning is no longer kept still belong to it. */
function inTurn(state: ConversationState, id: string, change: (turn: TurnState) => TurnState): ConversationState {
  const at = state.turns.findLastIndex((turn) => turn.id === id);
  const old = state.turns[at];
  if (old) return { ...state, turns: state.turns.with(at, change(old)) };
  const begun: TurnState = { id, prompt: '', status: 'running', items: [], notices: [] };
  return { ...state, turns: [...state.turns, change(begun)] };
}

/** A turn's usage is told more than once, each time whole. */
function counted(state: ConversationState, id: string, usage: TokenUsage | undefined): ConversationState {
  if (!usage) return state;
  const next = inTurn(state, id, (old) => ({ ...old, usage }));
  const sum = (field: 'input' | 'output' | 'cacheRead' | 'cacheWrite' | 'costUsd') =>
    next.turns.reduce((total, turn) => total + (turn.usage?.[field] ?? 0), 0);
  const [input, output, cacheRead, cacheWrite] = [sum('input'), sum('output'), sum('cacheRead'), sum('cacheWrite')];
  return { ...next, usage: { input, output, cacheRead, cacheWrite, costUsd: sum('costUsd') } };
}

/** A file that was made and then changed is one that was made. */
function filesAfter(
  files: ConversationState['files'],
  { path, change }: Extract<AgentLogEvent, { type: 'file_changed' }>,
): ConversationState['files'] {
  const before = files.find((file) => file.path === path)?.change;
  const known = before === 'created' && change === 'modified' ? before : change;
  const others = files.filter((file) => file.path !== path);
  return [...others, { path, change: known }].sort((a, b) => (a.path < b.path ? -1 : 1));
}

function withPermission(
  state: ConversationState,
  id: string,
  change: (permission: PermissionState) => PermissionState,
): ConversationState {
  const at = state.permissions.findLastIndex((permission) => permission.id === id);
  const old = state.permissions[at];
  if (old) return { ...state, permissions: state.permissions.with(at, change(old)) };
  const asked: PermissionState = { id, tool: '', summary: '', outcome: 'pending' };
  return { ...state, permissions: [...state.permissions, change(asked)] };
}

/** Nobody waits for it any more. */
function closed(permission: PermissionState): PermissionState {
  return permission.outcome === 'pending' ? { ...permission, outcome: 'cancelled' } : permission;
}

function withStatus(state: ConversationState): ConversationState {
  const waits = state.permissions.some(({ outcome }) => outcome === 'pending');
  const runs = state.turns.some((turn) => turn.status === 'running');
  const status = waits ? 'waiting' : runs ? 'running' : 'idle';
  return status === state.status ? state : { ...state, status };
}
