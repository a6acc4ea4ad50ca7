import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { Kernel } from '../kernel/kernel.ts';
import { KernelBudget } from '../kernel/kernel-budget.ts';
import type { PartHeader } from '../protocol/kernel-payloads.ts';
import { FileStorage } from '../storage/file/file-storage.ts';
import { DurableCheckpoints } from './durable-checkpoints.ts';

type Part = (header: PartHeader, bytes: Buffer) => void;

/** The part of a kernel that DurableCheckpoints uses. It saves one variable, whose value is the current text. */
function kernelWith(text: { now: string }): Kernel {
  const kernel = {
    budget: new KernelBudget(),
    requests: {
      save: async (_settings: unknown, part: Part) => {
        part({ kind: 'pickle', names: ['x'], portable: true, last: true }, Buffer.from(text.now));
        return { python: '3.11.2', saved: ['x'], lost: [] };
      },
    },
  };
  return kernel as unknown as Kernel;
}

async function checkpointsAt(clock: () => number): Promise<DurableCheckpoints> {
  const folder = await mkdtemp(join(tmpdir(), 'cella-checkpoints-'));
  const storage = await FileStorage.open(folder);
  onTestFinished(async () => {
    await storage.close();
    await rm(folder, { recursive: true });
  });
  return new DurableCheckpoints(storage.checkpoints, 'agent', { limitBytes: 1e6, seconds: 5, clock });
}

test('a clock that is set back changes neither which save is newest nor its minimum age', async () => {
  let now = 1_700_000_000_000;
  const durableCheckpoints = await checkpointsAt(() => now);
  const text = { now: 'first' };
  const kernel = kernelWith(text);
  const first = await durableCheckpoints.write(kernel, { kind: 'save', execution: 1 });
  now -= 86_400_000;
  text.now = 'second';
  const second = await durableCheckpoints.write(kernel, { kind: 'save', execution: 2 });
  expect((await durableCheckpoints.saves()).map(({ id }) => id)).toEqual([second.id, first.id]);
  expect(durableCheckpoints.age(first)).toBe(0);
  now = -5;
  expect((await durableCheckpoints.write(kernel, { kind: 'save', execution: 3 })).createdAt).toBe(0);
});

test('the newest two automatic saves are kept, and every requested checkpoint', async () => {
  const durableCheckpoints = await checkpointsAt(Date.now);
  const kernel = kernelWith({ now: 'text' });
  const asked = await durableCheckpoints.write(kernel, { kind: 'checkpoint', name: 'mine', execution: 0 });
  const saves = [];
  for (let execution = 1; execution <= 4; execution++)
    saves.push(await durableCheckpoints.write(kernel, { kind: 'save', execution }));
  const kept = (await durableCheckpoints.list()).map(({ id }) => id);
  expect(kept).toEqual([asked.id, ...saves.slice(-2).map(({ id }) => id)]);
});
