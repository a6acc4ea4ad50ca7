import { availableParallelism } from 'node:os';
import { expect, test, vi } from 'vitest';
import type { Kernel } from '../kernel/kernel.ts';
import type { Manifest } from '../protocol/kernel-state.ts';
import { Autosave } from './autosave.ts';
import type { DurableCheckpoints } from './durable-checkpoints.ts';

test('of many kernels that become idle together, a few at a time are saved, and finally every one', async () => {
  const kernels = 20 * availableParallelism();
  const saved: number[] = [];
  let copies = 0;
  let most = 0;
  const write = async (_: Kernel, { execution }: { execution: number }) => {
    most = Math.max(most, copies);
    // Without a limit, all others would begin in this turn of the event loop.
    await new Promise(setImmediate);
    return { execution } as Manifest;
  };
  for (let execution = 0; execution < kernels; execution++) {
    const copy = { close: async () => void copies-- } as unknown as Kernel;
    const autosave = new Autosave({
      afterMs: 1,
      durableCheckpoints: { write } as unknown as DurableCheckpoints,
      fork: async (forked) => {
        copies++;
        forked();
        return { kernel: copy, execution };
      },
      onSaved: () => void saved.push(execution),
    });
    autosave.changed();
  }
  await vi.waitFor(() => expect(saved).toHaveLength(kernels));
  expect(new Set(saved).size).toBe(kernels);
  expect(most).toBeLessThan(kernels / 2);
});
