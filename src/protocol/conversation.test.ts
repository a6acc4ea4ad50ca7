import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { AgentLogEvent } from './agent-events.ts';
import { type ConversationState, emptyConversation, reduce } from './conversation.ts';

const turn = 'trn_0000000000000001';
const started: AgentLogEvent = { type: 'turn_started', turn, agent: 'claude', prompt: 'Go', mode: 'ask' };
const stateOf = (...events: AgentLogEvent[]): ConversationState => events.reduce(reduce, emptyConversation);
const permission = 'prm_0000000000000001';

describe('the state of a conversation', () => {
  test('a text grows with its deltas, and its completion replaces them', () => {
    const piece = (text: string): AgentLogEvent => ({ type: 'item_delta', turn, item: 'a', text });
    const begun: AgentLogEvent = { type: 'item_started', turn, item: 'a', kind: 'message' };
    expect(stateOf(started, begun, piece('Hel'), piece('lo')).turns[0]?.items[0]).toMatchObject({
      text: 'Hello',
      status: 'running',
    });
    const whole: AgentLogEvent = {
      type: 'item_completed',
      turn,
      item: 'a',
      kind: 'message',
      status: 'completed',
      text: 'Hello!',
    };
    expect(stateOf(started, begun, piece('Hel'), whole).turns[0]?.items).toEqual([
      { id: 'a', kind: 'message', status: 'completed', text: 'Hello!', items: [] },
    ]);
  });

  test('items of a subagent are below it, and those of an unknown subagent are kept', () => {
    const state = stateOf(
      started,
      { type: 'item_started', turn, item: 'sub', kind: 'subagent', tool: 'Agent' },
      { type: 'item_started', turn, item: 'in', kind: 'tool', parent: 'sub', tool: 'Bash' },
      { type: 'item_started', turn, item: 'deep', kind: 'message', parent: 'in' },
      { type: 'item_started', turn, item: 'lost', kind: 'message', parent: 'nobody' },
      { type: 'item_started', turn, item: 'self', kind: 'message', parent: 'self' },
    );
    const [sub, lost, self] = state.turns[0]?.items ?? [];
    expect(sub?.items[0]).toMatchObject({ id: 'in', items: [{ id: 'deep' }] });
    expect([lost?.id, self?.id]).toEqual(['lost', 'self']);
  });

  test('items that name each other as parents do not nest endlessly', () => {
    const chain = Array.from(
      { length: 500 },
      (_, at): AgentLogEvent => ({ type: 'item_started', turn, item: `${at}`, kind: 'subagent', parent: `${at - 1}` }),
    );
    expect(() => JSON.stringify(stateOf(started, ...chain))).not.toThrow();
  });

  test('the end of a turn ends its items and pending permissions', () => {
    const state = stateOf(
      started,
      { type: 'item_started', turn, item: 'a', kind: 'tool', tool: 'Bash' },
      { type: 'permission_requested', id: permission, turn, item: 'a', tool: 'Bash', summary: 'ls' },
    );
    expect(state.status).toBe('waiting');
    const ended = reduce(state, { type: 'turn_ended', turn, status: 'cancelled' });
    expect(ended).toMatchObject({
      status: 'idle',
      turns: [{ status: 'cancelled', items: [{ status: 'cancelled' }] }],
      permissions: [{ outcome: 'cancelled' }],
    });
  });

  test('a permission that was pending when its server ended stays pending, and belongs to the turn that requests it again', () => {
    const asked = { type: 'permission_requested', id: permission, tool: 'Bash', summary: 'ls' } as const;
    const next = 'trn_0000000000000002';
    const left = stateOf(started, { ...asked, turn }, { type: 'turn_ended', turn, status: 'interrupted' });
    expect(left).toMatchObject({ status: 'waiting', permissions: [{ turn, outcome: 'pending' }] });
    const again = stateOf(started, { ...asked, turn }, { ...asked, turn: next });
    expect(again.permissions).toMatchObject([{ id: permission, turn: next, outcome: 'pending' }]);
  });

  test('a decided permission says who decided, and the turn continues', () => {
    const state = stateOf(
      started,
      { type: 'permission_requested', id: permission, turn, tool: 'Bash', summary: 'ls' },
      { type: 'permission_resolved', id: permission, turn, outcome: 'denied', reason: 'no', by: 'usr_1' },
    );
    expect(state.status).toBe('running');
    expect(state.permissions).toMatchObject([{ tool: 'Bash', outcome: 'denied', reason: 'no', by: 'usr_1' }]);
  });

  test('a question is a permission with a text, in either order of events', () => {
    const asked: AgentLogEvent = {
      type: 'question',
      id: permission,
      turn,
      text: 'Which?',
      options: [{ label: 'red' }],
    };
    const requested: AgentLogEvent = {
      type: 'permission_requested',
      id: permission,
      turn,
      tool: 'AskUserQuestion',
      summary: 'Which?',
    };
    const expected = { tool: 'AskUserQuestion', summary: 'Which?', question: { text: 'Which?' }, outcome: 'pending' };
    expect(stateOf(started, asked, requested).permissions).toMatchObject([expected]);
    expect(stateOf(started, requested, asked).permissions).toMatchObject([expected]);
  });

  test('usage that is reported twice for a turn counts once, and turns add up', () => {
    const usage = { input: 10, output: 5, cacheRead: 1, cacheWrite: 2, costUsd: 0.5, model: 'm' };
    const other = 'trn_0000000000000002';
    const state = stateOf(
      started,
      { type: 'usage', turn, usage },
      { type: 'turn_ended', turn, status: 'completed', usage },
      { ...started, turn: other },
      { type: 'turn_ended', turn: other, status: 'failed', usage },
    );
    expect(state.usage).toEqual({ input: 20, output: 10, cacheRead: 2, cacheWrite: 4, costUsd: 1 });
  });

  test('a file that was created and then changed counts as created', () => {
    const state = stateOf(
      started,
      { type: 'file_changed', turn, path: 'b', change: 'created' },
      { type: 'file_changed', turn, path: 'a', change: 'modified' },
      { type: 'file_changed', turn, path: 'b', change: 'modified' },
    );
    expect(state.files).toEqual([
      { path: 'a', change: 'modified' },
      { path: 'b', change: 'created' },
    ]);
  });

  test('events of a turn whose beginning was trimmed still belong to it', () => {
    expect(stateOf({ type: 'item_delta', turn, item: 'a', text: 'x' })).toMatchObject({
      turns: [{ id: turn, prompt: '', items: [{ id: 'a', text: 'x' }] }],
    });
  });

  test('each event looks through a bounded state, whatever runners send: the newest items, turns and permissions, and so many files', () => {
    const stateAfter = (count: number, event: (at: number) => AgentLogEvent) =>
      stateOf(started, ...Array.from({ length: count }, (_, at) => event(at)));
    const itemOf = (at: number, parent?: string): AgentLogEvent => ({
      ...{ type: 'item_started', turn, item: `i${at}`, kind: 'tool', parent },
    });
    const flat = stateAfter(10_500, (at) => itemOf(at)).turns[0]?.items;
    expect([flat?.length, flat?.[0]?.id, flat?.at(-1)?.id]).toEqual([10_000, 'i500', 'i10499']);
    const nested = stateAfter(10_500, (at) => itemOf(at, `i${at - (at % 1000)}`)).turns[0]?.items;
    // The oldest subagent is gone, with everything below it.
    expect(nested?.map(({ id, items }) => [id, items.length])).toEqual(
      Array.from({ length: 10 }, (_, at) => [`i${at + 1}000`, at < 9 ? 999 : 499]),
    );
    const path = (at: number) => `f${String((at * 7919) % 10_501).padStart(5, '0')}`;
    const { files } = stateAfter(10_500, (at) => ({ type: 'file_changed', turn, path: path(at), change: 'created' }));
    expect(files.map((file) => file.path)).toEqual(Array.from({ length: 10_000 }, (_, at) => path(at)).sort());
    const { turns } = stateAfter(1100, (at) => ({ ...started, turn: `trn_${at}` }));
    expect([turns.length, turns.at(-1)?.id]).toEqual([1000, 'trn_1099']);
  });

  test('a permission that waits for a person stays, however many came after it', () => {
    const asked: AgentLogEvent = { type: 'permission_requested', id: permission, turn, tool: 'Bash', summary: 'ls' };
    const others = Array.from({ length: 1500 }, (_, at): AgentLogEvent[] => [
      { type: 'permission_requested', id: `prm_${at}`, turn, tool: 'T', summary: 's' },
      { type: 'permission_resolved', id: `prm_${at}`, turn, outcome: 'allowed' },
    ]);
    const state = stateOf(started, asked, ...others.flat());
    expect(state.permissions).toHaveLength(1000);
    expect(state.permissions[0]).toMatchObject({ id: permission, outcome: 'pending' });
    expect(state.permissions.at(-1)).toMatchObject({ id: 'prm_1499', outcome: 'allowed' });
  });

  test('any order of events works, no event is changed, and unaffected parts stay the same objects', () => {
    const ids = fc.constantFrom('a', 'b', '__proto__', 'constructor');
    const event = fc.oneof(
      fc.constant(started),
      fc.record({ type: fc.constant('item_delta' as const), turn: fc.constant(turn), item: ids, text: fc.string() }),
      fc.record({
        type: fc.constant('item_started' as const),
        turn: fc.constant(turn),
        item: ids,
        kind: fc.constantFrom('message' as const, 'subagent' as const),
        parent: ids,
      }),
      fc.constant<AgentLogEvent>({ type: 'turn_ended', turn, status: 'completed' }),
    );
    fc.assert(
      fc.property(fc.array(event), (events) => {
        const before = JSON.stringify(events);
        const state = stateOf(...events);
        expect(JSON.stringify(events)).toBe(before);
        const next = reduce(state, { type: 'plan', turn, entries: [] });
        expect(next.turns).toBe(state.turns);
      }),
    );
  });
});
