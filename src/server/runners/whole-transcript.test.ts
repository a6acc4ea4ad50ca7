import { expect, test } from 'vitest';
import { wholeTranscript } from './whole-transcript.ts';

const told = (parts: readonly string[]) => async (part: number) => ({
  found: true,
  text: parts[part] ?? '',
  parts: parts.length,
});

test('a transcript is put together from its parts, and may be empty or not there', async () => {
  expect(await wholeTranscript('talk', told(['one\n', 'two\n']))).toBe('one\ntwo\n');
  expect(await wholeTranscript('talk', told([]))).toBe('');
  expect(await wholeTranscript('talk', async () => ({ found: false, text: 'x', parts: 3 }))).toBeUndefined();
});

test('an executor that goes on without end is not listened to', async () => {
  const empty = async () => ({ found: true, text: '', parts: 1000 });
  await expect(wholeTranscript('talk', empty)).rejects.toMatchObject({ code: 'RUNNER_PROTOCOL' });
  const dripping = async () => ({ found: true, text: 'x', parts: Number.MAX_SAFE_INTEGER });
  await expect(wholeTranscript('talk', dripping)).rejects.toMatchObject({ code: 'RUNNER_PROTOCOL' });
  const piece = 'x'.repeat(4 * 1024 * 1024);
  const endless = async (part: number) => ({ found: true, text: piece, parts: part + 2 });
  await expect(wholeTranscript('talk', endless)).rejects.toMatchObject({ code: 'TOO_LARGE' });
});
