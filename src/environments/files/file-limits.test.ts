import { stat } from 'node:fs/promises';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { beginWriting, FilesInTurn, takeTurn } from './file-limits.ts';
import type { Files, NewFile } from './session-files.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it('a user has 4 running operations and 64 waiting ones; others are not affected', async () => {
  const taken = await Promise.all([1, 2, 3, 4].map(() => takeTurn('mallory')));
  let begun = 0;
  const waiting = Array.from({ length: 64 }, async () => {
    const release = await takeTurn('mallory');
    begun++;
    release();
  });
  await expect(takeTurn('mallory')).rejects.toMatchObject({ code: 'RATE_LIMITED' });
  (await takeTurn('victoria'))();
  expect(begun).toBe(0);
  for (const release of taken) release();
  await Promise.all(waiting);
  expect(begun).toBe(64);
});

it('nobody waits forever if all operations of a user hang', async () => {
  const taken = await Promise.all([1, 2, 3, 4].map(() => takeTurn('mallory')));
  const waiting = expect(takeTurn('mallory')).rejects.toMatchObject({ code: 'RATE_LIMITED' });
  await vi.advanceTimersByTimeAsync(30_000);
  await waiting;
  for (const release of taken) release();
  (await takeTurn('mallory'))();
});

it('a user writes 128 files at a time', () => {
  const begun = Array.from({ length: 128 }, () => beginWriting('mallory'));
  expect(() => beginWriting('mallory')).toThrow('128 files are already being written');
  beginWriting('victoria')();
  for (const end of begun) end();
  beginWriting('mallory')();
});

it('steps with open files of a folder that may hang take turns, and the last step waits without a limit', async () => {
  const id = { device: '1', inode: '1', boot: '' };
  const ended: string[] = [];
  const made = { commit: async () => ended.push('commit'), discard: async () => ended.push('discard') };
  const create = async () => made as unknown as NewFile;
  const files = new FilesInTurn({ create } as unknown as Files, { path: '/', id, whose: 'mallory' });
  const uploads = await Promise.all([1, 2].map(() => files.create('a')));
  const answer = Promise.withResolvers<void>();
  let begun = 0;
  const step = () => {
    begun++;
    return answer.promise;
  };
  const steps = Promise.allSettled(Array.from({ length: 100 }, () => files.stepOpen(step)));
  const last = files.endOpen(step);
  const [committed, discarded] = [uploads[0]?.commit(), uploads[1]?.discard()];
  const late = expect(committed).rejects.toMatchObject({ code: 'RATE_LIMITED' });
  for (let second = 0; second < 30; second++) {
    await vi.advanceTimersByTimeAsync(1000);
    // The check of the folder is a real call, which needs real time to answer.
    await stat('/');
  }
  await late;
  expect([begun, ended]).toEqual([4, []]);
  answer.resolve();
  await Promise.all([last, discarded]);
  expect((await steps).map(({ status }) => status).filter((status) => status === 'fulfilled')).toHaveLength(4);
  expect([begun, ended]).toEqual([5, ['discard', 'discard']]);
  (await takeTurn('mallory'))();
});
