/** Turns that were recorded from the real program: the live stream and the reload end in the same state. */

import { describe, expect, test } from 'vitest';
import { LiveTurn } from '../../src/agents/claude/live-turn.ts';
import { eventsOf } from '../../src/agents/claude/transcript-events.ts';
import { AgentLogEvent } from '../../src/protocol/agent-events.ts';
import {
  type ConversationState,
  type ConversationTurn,
  emptyConversation,
  reduce,
} from '../../src/protocol/conversation.ts';
import { type Recording, readRecording, recordedNames } from '../support/agents/recording.ts';

function liveEvents({ agent, cwd, turns }: Recording): AgentLogEvent[] {
  return turns.flatMap(({ turn, prompt, mode, outcome, native }): AgentLogEvent[] => {
    const live = new LiveTurn(turn, cwd);
    const { status, usage, error } = outcome;
    return [
      { type: 'turn_started', turn, agent, prompt, mode },
      ...native.flatMap((message) => live.toEvents(message)),
      { type: 'turn_ended', turn, status, ...(usage ? { usage } : {}), ...(error ? { error } : {}) },
    ];
  });
}

function reloaded({ transcript }: Recording): AgentLogEvent[] {
  return eventsOf(transcript.map((line) => `${JSON.stringify(line)}\n`).join(''));
}

/** What the live stream alone knows: notices of the moment. Cost is rounded where it is added up. */
function comparable(state: ConversationState): unknown {
  const turns = state.turns.map(({ notices, ...turn }: ConversationTurn) => turn);
  return { ...state, turns, usage: { ...state.usage, costUsd: state.usage.costUsd?.toFixed(6) } };
}

const stateOf = (events: readonly AgentLogEvent[]) => events.reduce(reduce, emptyConversation);

describe.each(recordedNames('claude'))('the recorded conversation %s', (name) => {
  const recording = readRecording('claude', name);

  test('ends in the same state live and from its transcript', () => {
    const live = stateOf(liveEvents(recording));
    expect(comparable(stateOf(reloaded(recording)))).toEqual(comparable(live));
    expect(live.turns.map(({ id }) => id)).toEqual(recording.turns.map(({ turn }) => turn));
    // A model is named where one has answered.
    const answered = live.turns.map(({ items }) => items.length > 0);
    expect(live.turns.map(({ model }) => model !== undefined)).toEqual(answered);
  });

  test('gives events that fit their schema, none of them raw', () => {
    const events = [...liveEvents(recording), ...reloaded(recording)];
    for (const event of events) expect(AgentLogEvent.parse(event)).toEqual(event);
    expect(events.filter(({ type }) => type === 'agent_raw')).toEqual([]);
  });
});

describe('the recordings contain', () => {
  const state = (name: string) => stateOf(reloaded(readRecording('claude', name)));

  test('a subagent with its own texts and tools', () => {
    const subagent = state('subagent').turns[0]?.items.find(({ kind }) => kind === 'subagent');
    expect(subagent).toMatchObject({ status: 'completed', title: 'Look around' });
    expect(subagent?.items.map(({ kind, status }) => [kind, status])).toEqual([
      ['message', 'completed'],
      ['tool', 'completed'],
      ['message', 'completed'],
    ]);
  });

  test('thoughts, a plan, a question with its answer, and files', () => {
    const plain = state('plain');
    expect(plain.turns[1]?.items[0]).toMatchObject({ kind: 'reasoning', text: 'Let me think about it.' });
    const plan = state('plan');
    expect(plan.plan).toEqual([
      { text: 'Look', status: 'completed' },
      { text: 'Leap', status: 'in_progress' },
    ]);
    expect(plan.turns[1]?.items[1]?.output).toContain('green, please');
    expect(state('tools').files).toEqual([
      { path: 'auto.txt', change: 'created' },
      { path: 'made', change: 'created' },
    ]);
  });

  test('tools that were denied, failed and ran; turns that were stopped and failed', () => {
    const tools = state('tools').turns.map(({ items }) =>
      items.filter(({ kind }) => kind === 'tool').map((one) => one.status),
    );
    expect(tools).toEqual([['completed', 'denied'], ['completed'], ['denied', 'denied'], ['failed']]);
    expect(state('cancelled').turns.map(({ status }) => status)).toEqual(['cancelled', 'cancelled']);
    expect(state('failed').turns.map(({ status, error }) => [status, error?.code])).toEqual([
      ['failed', 'PROVIDER_REFUSED'],
      ['failed', 'PROVIDER_LIMITED'],
      ['completed', undefined],
    ]);
  });
});
