/** A process that cannot be killed is not waited for. */

import { afterEach, expect, test, vi } from 'vitest';
import { endsAfterKill } from './process-end.ts';

afterEach(() => void vi.useRealTimers());

test('a process that cannot be killed is abandoned after ten seconds, with a warning', async () => {
  const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
  vi.useFakeTimers();
  const ended = endsAfterKill(new Promise(() => {}), 'npm (process 7)');
  await vi.advanceTimersByTimeAsync(10_100);
  expect(await ended).toBe(false);
  expect(warned).toHaveBeenCalledWith(expect.stringContaining('npm (process 7) was killed and has not ended'));
  warned.mockRestore();
});
