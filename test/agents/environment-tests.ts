/** What depends on where an agent runs: its answers, leave for tools, stops, modes by their effect, and its end. */

import { existsSync } from 'node:fs';
import { expect, test } from 'vitest';
import { loadAdapter } from '../../src/agents/registry.ts';
import type { AgentLogEvent } from '../../src/protocol/agent-events.ts';
import type { PermissionRequest } from '../../src/protocol/permission.ts';
import { type AgentWords, allow, type Suite, textsOf } from './suite.ts';

export function placeTests(words: AgentWords, suite: () => Suite): void {
  test('streams an answer in pieces that add up, and reports tokens and cost', () => {
    const outcome = suite().first;
    expect(outcome).toMatchObject({ status: 'completed', conversation: expect.any(String) });
    const deltas = outcome.events.filter((event) => event.type === 'item_delta');
    expect(deltas.length).toBeGreaterThan(1);
    expect(deltas.map(({ text }) => text).join('')).toBe('Hello from the stand-in model.');
    expect(textsOf(outcome)).toEqual(['Hello from the stand-in model.']);
    expect(outcome.usage).toMatchObject({ input: 11, output: 7, model: words.model, costUsd: expect.any(Number) });
    expect(outcome.usage?.costUsd).toBeGreaterThan(0);
    expect(outcome.events).toContainEqual({ type: 'usage', turn: outcome.turn, usage: outcome.usage });
    expect(outcome.events).toContainEqual(
      expect.objectContaining({ type: 'agent_session', agent: words.name, conversation: outcome.conversation }),
    );
  });

  test('continues a conversation after every process has ended, and counts only this turn', async () => {
    await suite().place.restart();
    const second = await suite().place.prompt('#remember', {
      conversation: suite().first.conversation,
      model: words.model,
    });
    expect(second).toMatchObject({ status: 'completed', conversation: suite().first.conversation });
    expect(textsOf(second)).toEqual(['You said: #plain #remember']);
    expect(second.usage).toEqual(suite().first.usage);
    const adapter = await loadAdapter(words.name);
    const transcript = (await suite().place.transcript(suite().first.conversation ?? '')) ?? '';
    const turns = adapter.eventsOf(transcript).filter(({ type }) => type === 'turn_ended');
    expect(turns.map((event) => 'turn' in event && event.turn)).toEqual([suite().first.turn, second.turn]);
  });

  test('a denied tool does not run, the agent reads the reason, and the turn continues', async () => {
    const permit = async ({ summary }: PermissionRequest) =>
      summary.includes('touch') ? { allowed: false, reason: 'not on a Monday' } : { allowed: true };
    const outcome = await suite().place.prompt(`#both ${suite().inside('one')}`, { permit });
    expect(outcome.status).toBe('completed');
    expect(textsOf(outcome).at(-1)).toContain('not on a Monday');
    expect([existsSync(suite().outside('one')), existsSync(suite().outside('one.too'))]).toEqual([true, false]);
    const ends = outcome.events.filter((event) => event.type === 'item_completed' && event.kind === 'tool');
    expect(ends).toMatchObject([{ status: 'completed' }, { status: 'denied', output: 'not on a Monday' }]);
  });

  test('in plan, no file appears, even if a person allows it', async () => {
    const outcome = await suite().place.prompt(`#both ${suite().inside('plan.txt')}`, { mode: 'plan', permit: allow });
    expect(outcome.status).toBe('completed');
    expect(await suite().files()).toEqual([]);
  });

  test('a stop in the middle of the stream ends the turn as cancelled, and keeps the text so far', async () => {
    const stop = new AbortController();
    let pieces = 0;
    const onEvent = ({ type }: AgentLogEvent) => {
      if (type === 'item_delta' && ++pieces === 3) stop.abort();
    };
    const outcome = await suite().place.prompt('#slow', { signal: stop.signal, onEvent });
    expect(outcome.status).toBe('cancelled');
    expect(outcome.error).toBeUndefined();
    const said = outcome.events.flatMap((event) => (event.type === 'item_completed' ? [event] : []));
    expect(said).toMatchObject([{ status: 'cancelled', text: expect.stringMatching(/^word word/) }]);
    expect(said[0]?.text?.length).toBeLessThan(9000);
    const next = await suite().place.prompt('#remember', { conversation: outcome.conversation });
    expect(textsOf(next)).toEqual([expect.stringMatching(/#slow #remember$/)]);
  });

  test('a stop while a permission is pending ends the turn at once, and nothing is done', async () => {
    const stop = new AbortController();
    const outcome = await suite().place.prompt(`#write ${suite().inside('late.txt')}`, {
      signal: stop.signal,
      permit: () => {
        stop.abort();
        return new Promise(() => {});
      },
    });
    expect(outcome.status).toBe('cancelled');
    expect(await suite().files()).toEqual([]);
  });

  test('an agent that is killed during a turn fails the turn, and its conversation can continue', async () => {
    const hangs = suite().model.hangs();
    const dying = suite().place.prompt('#hang', { conversation: suite().first.conversation });
    await hangs;
    await suite().place.killAgent();
    expect(await dying).toMatchObject({ status: 'failed', error: { code: 'AGENT_DIED' } });
    const next = await suite().place.prompt('#remember', { conversation: suite().first.conversation });
    expect(textsOf(next).at(-1)).toContain('#plain');
  });

  test('bypass asks for nothing, if the environment allows it', async () => {
    const outcome = await suite().place.prompt(`#both ${suite().inside('free')}`, { mode: 'bypass' });
    expect(outcome.status).toBe(suite().place.takesBypass ? 'completed' : 'failed');
    expect(await suite().files()).toEqual(suite().place.takesBypass ? ['free', 'free.too'] : []);
  });
}
