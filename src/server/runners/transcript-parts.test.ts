import { Readable } from 'node:stream';
import { expect, test } from 'vitest';
import { readWholeTranscript, sendWholeTranscript } from './transcript-parts.ts';

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
