import { expect, test } from 'vitest';
import { LiveTurn } from './live-turn.ts';
import { eventsOf, uuidOfTurn } from './transcript-events.ts';

const turn = 'trn_0000000000000001';
const raw = (native: unknown) => ({ type: 'agent_raw', turn, agent: 'claude', native });
/** A block that no model says yet. */
const block = { type: 'hologram', shape: { sides: 6 } };
const message = { id: 'msg_1', model: 'claude', content: [block, { type: 'text', text: 'See?' }] };

test('an unknown message of the program is kept unchanged', () => {
  const live = new LiveTurn(turn, '/agent/workspace');
  const unknown = { type: 'teleported', to: 'mars', passengers: [{ name: 'Ann' }] };
  expect(live.toEvents(unknown)).toEqual([raw(unknown)]);
  const known = { type: 'system', subtype: 'beamed', text: 'up' };
  expect(live.toEvents(known)).toEqual([raw(known)]);
  expect(live.toEvents('no object')).toEqual([raw('no object')]);
  const told = live.toEvents({ type: 'assistant', message, parent_tool_use_id: null });
  expect(told[0]).toEqual(raw(block));
  expect(told.at(-1)).toMatchObject({ type: 'item_completed', text: 'See?' });
  // Its bookkeeping is no news.
  expect(live.toEvents({ type: 'tool_progress', elapsed: 1 })).toEqual([]);
});

test('an unknown block of a transcript is kept unchanged, and an unknown line hides nothing', () => {
  const lines = [
    { type: 'user', uuid: uuidOfTurn(turn), sessionId: 'one', message: { content: 'Show me' } },
    { type: 'teleported', to: 'mars' },
    { type: 'assistant', message: { ...message, stop_reason: 'end_turn' } },
  ];
  const events = eventsOf(lines.map((line) => JSON.stringify(line)).join('\n'));
  expect(events).toContainEqual(raw(block));
  expect(events).toContainEqual(expect.objectContaining({ type: 'item_completed', text: 'See?' }));
  expect(events.at(-1)).toMatchObject({ type: 'turn_ended', turn, status: 'completed' });
});
