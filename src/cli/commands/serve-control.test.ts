/** Whether a server answers: one that is slow on a busy machine is not told as stuck. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { setImmediate } from 'node:timers/promises';
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { CellaError, type Client } from '../../client/index.ts';
import { withAnswerTimeout } from './serve-control.ts';

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }));
afterEach(() => void vi.useRealTimers());

const held = (pid: number) => ({ owner: async () => ({ id: '', pid, host: 'here', since: 0 }) });
const unreachable = { code: 'SERVER_UNREACHABLE' };
const after = (ms: number) => new Promise<Client>((resolve) => void setTimeout(() => resolve({} as Client), ms)); // nothing is asked of it

test('a slow server is waited for', async () => {
  const answer = withAnswerTimeout(after(10_000), 'socket', held(process.pid));
  await vi.advanceTimersByTimeAsync(10_000);
  expect(await answer).toEqual({});
});

test('a server that never answers is reported in the end', async () => {
  const answer = expect(withAnswerTimeout(after(60_000), 'socket', held(process.pid))).rejects.toMatchObject(
    unreachable,
  );
  await vi.advanceTimersByTimeAsync(20_000);
  await answer;
});

test('a stopped server is reported soon', async () => {
  const stopped = spawn('sleep', ['1000']);
  onTestFinished(() => void stopped.kill('SIGKILL'));
  await once(stopped, 'spawn');
  stopped.kill('SIGSTOP');
  while (!readFileSync(`/proc/${stopped.pid}/stat`, 'latin1').includes(') T ')) await setImmediate();
  const answer = expect(withAnswerTimeout(after(60_000), 'socket', held(stopped.pid ?? 0))).rejects.toMatchObject(
    unreachable,
  );
  await vi.advanceTimersByTimeAsync(3000);
  await answer;
});

test('without a server on the folder, nothing is waited for', async () => {
  const refused = Promise.reject<Client>(new CellaError('SERVER_UNREACHABLE', 'refused'));
  await expect(withAnswerTimeout(refused, 'socket', { owner: async () => undefined })).rejects.toMatchObject(
    unreachable,
  );
});
