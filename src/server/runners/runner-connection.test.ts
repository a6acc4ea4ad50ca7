import { Readable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import type { AgentEvent } from '../../protocol/agent-events.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { RunnerTurn } from '../turns/session-turn.ts';
import { ActiveTurn, readWholeTranscript, sendWholeTranscript } from './runner-connection.ts';

const turn = 'trn_0000000000000001';
const notice: AgentEvent = { type: 'agent_notice', turn, text: 'hello' };
const revoked = () => Promise.reject(new CellaError('UNAUTHENTICATED', 'This session token was revoked.'));

/** Collects what nobody has caught: in a server it would be the end of all sessions. */
function uncaught(): unknown[] {
  const found: unknown[] = [];
  const note = (error: unknown) => found.push(error);
  process.on('unhandledRejection', note);
  onTestFinished(() => void process.off('unhandledRejection', note));
  return found;
}

function assignmentThat(emit: RunnerTurn['emit']): ActiveTurn {
  return new ActiveTurn({ id: turn, emit } as RunnerTurn, 'cst_one');
}

test('a token that is revoked while an earlier message is written fails only that message', async () => {
  const found = uncaught();
  const writing = Promise.withResolvers<void>();
  const assignment = assignmentThat(() => writing.promise);
  const first = assignment.addEvent(1, notice, Promise.resolve());
  const second = assignment.addEvent(2, notice, revoked());
  await setImmediate();
  writing.resolve();
  await first;
  await expect(second).rejects.toMatchObject({ code: 'UNAUTHENTICATED' });
  expect(found).toEqual([]);
});

test('a message out of order with an invalid token is refused for its order', async () => {
  const found = uncaught();
  const assignment = assignmentThat(async () => {});
  await expect(assignment.addEvent(7, notice, revoked())).rejects.toMatchObject({ code: 'RUNNER_PROTOCOL' });
  await setImmediate();
  expect(found).toEqual([]);
});

const told = (parts: readonly string[]) => async (part: number) => ({
  found: true,
  text: parts[part] ?? '',
  parts: parts.length,
});

const whole = async (...[conversation, read]: Parameters<typeof readWholeTranscript>) => {
  const text = await readWholeTranscript(conversation, read);
  if (!text) return undefined;
  let all = '';
  for await (const piece of text) all += piece;
  return all;
};

test('a transcript is read part by part, and can be empty or missing', async () => {
  expect(await whole('talk', told(['one\n', 'two\n']))).toBe('one\ntwo\n');
  expect(await whole('talk', told([]))).toBe('');
  expect(await whole('talk', async () => ({ found: false, text: 'x', parts: 3 }))).toBeUndefined();
  const lost = async (part: number) => ({ found: part === 0, text: 'x', parts: 3 });
  await expect(whole('talk', lost)).rejects.toMatchObject({ code: 'RUNNER_PROTOCOL' });
});

test('a runner that sends endless parts is disconnected', async () => {
  const empty = async () => ({ found: true, text: '', parts: 1000 });
  await expect(whole('talk', empty)).rejects.toMatchObject({ code: 'RUNNER_PROTOCOL' });
  const dripping = async () => ({ found: true, text: 'x', parts: Number.MAX_SAFE_INTEGER });
  await expect(whole('talk', dripping)).rejects.toMatchObject({ code: 'RUNNER_PROTOCOL' });
  const piece = 'x'.repeat(4 * 1024 * 1024);
  const endless = async (part: number) => ({ found: true, text: piece, parts: part + 2 });
  await expect(whole('talk', endless)).rejects.toMatchObject({ code: 'TOO_LARGE' });
});

test('a transcript is sent in parts, and a runner with impossible answers is disconnected', async () => {
  const text = `${'\u{1f40d}'.repeat(300_000)}\n`;
  const stored = (said: string) => ({ length: said.length, text: Readable.from([said.slice(0, 99), said.slice(99)]) });
  let received = '';
  const told: string[] = [];
  await sendWholeTranscript(stored(text), async (one) => {
    received += one?.text ?? '';
    const transcript = one && one.part + 1 < one.parts ? 'partial' : 'kept';
    told.push(transcript);
    return { transcript };
  });
  expect([received === text, told]).toEqual([true, ['partial', 'partial', 'kept']]);
  await sendWholeTranscript(stored(''), async (one) => ({ transcript: one ? 'kept' : 'none' }));
  const lies = ['none', 'partial', 'written', 'kept'] as const;
  for (const transcript of lies) {
    await expect(sendWholeTranscript(stored(text), async () => ({ transcript }))).rejects.toMatchObject({
      code: 'RUNNER_PROTOCOL',
    });
  }
});
