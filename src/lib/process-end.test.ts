/** A child that has ended is not waited for because another process holds its pipes, and neither is one that cannot be killed. */

import { spawn } from 'node:child_process';
import { afterEach, expect, test, vi } from 'vitest';
import { endsAfterKill, processEnd } from './process-end.ts';

afterEach(() => void vi.useRealTimers());

test('a pipe that a process in another session holds open is given up', async () => {
  const child = spawn('sh', ['-c', 'setsid sleep 20 & echo "$!"; exit 3'], { stdio: ['ignore', 'pipe', 'ignore'] });
  let said = '';
  child.stdout.on('data', (chunk) => {
    said += chunk;
  });
  const began = performance.now();
  expect(await processEnd(child)).toEqual({ code: 3, signal: null });
  expect(performance.now() - began).toBeLessThan(10_000);
  process.kill(Number(said), 'SIGKILL');
});

test('a program that is not there is told', async () => {
  await expect(processEnd(spawn('/no/such/program'))).rejects.toMatchObject({ code: 'ENOENT' });
});

test('a process that cannot be killed is left after ten seconds, with a warning', async () => {
  const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
  vi.useFakeTimers();
  const ended = endsAfterKill(new Promise(() => {}), 'npm (process 7)');
  await vi.advanceTimersByTimeAsync(10_100);
  expect(await ended).toBe(false);
  expect(warned).toHaveBeenCalledWith(expect.stringContaining('npm (process 7) was killed and has not ended'));
  warned.mockRestore();
});
