import { expect, test } from 'vitest';
import type { KernelHost, KernelHostListener } from '../environments/kernel-host.ts';
import { KernelProcess, SharedEnvironment } from './kernel-process.ts';
import { unlimitedSlots } from './kernel-slots.ts';

/** The part of an environment that SharedEnvironment uses. It closes when `end` is called. */
function fakeEnvironment() {
  const closing = Promise.withResolvers<void>();
  const listeners: KernelHostListener[] = [];
  const listen = (listener: KernelHostListener) => listeners.push(listener);
  const part = { alive: true, pid: 1, listen, close: () => closing.promise };
  const lose = (snapshot: number) => listeners[0]?.snapshotLost(snapshot, false);
  return { environment: part as unknown as KernelHost, end: closing.resolve, lose };
}

function kernelProcess(): KernelProcess {
  const options = {
    checkFolders: async () => {},
    checkpointLimits: { maxCount: 5, undo: 5, maxBytes: 1000 },
    onDenied: () => {},
    background: () => {},
    slots: unlimitedSlots,
  };
  return new KernelProcess(options, { hibernate: async () => {} });
}

const checkpoint = (snapshot: number) => ({ snapshot, id: `checkpoint-${snapshot}`, createdAt: 0, execution: 0 });

test('an environment that ends slowly does not drop snapshots of the next one', async () => {
  const kernel = kernelProcess();
  const [old, next] = [fakeEnvironment(), fakeEnvironment()];
  kernel.useEnvironment(new SharedEnvironment(old.environment));
  kernel.checkpoints.add(checkpoint(1));
  const releasing = kernel.release('the sandbox ran out of memory', { keepSlot: true });
  kernel.useEnvironment(new SharedEnvironment(next.environment));
  kernel.checkpoints.add(checkpoint(2));
  old.end();
  await releasing;
  expect(kernel.checkpoints.all.map(({ gone }) => gone)).toEqual(['the sandbox ran out of memory', undefined]);
});

test('an open transaction ends with the environment that its snapshot is in', async () => {
  const kernel = kernelProcess();
  const old = fakeEnvironment();
  kernel.useEnvironment(new SharedEnvironment(old.environment));
  kernel.transaction.begin();
  kernel.transaction.leaveOpen(7);
  kernel.transaction.end();
  expect(kernel.transaction.open).toBe(7);
  old.lose(8);
  expect(kernel.transaction.open).toBe(7);
  old.lose(7);
  expect(kernel.transaction.none).toBe(true);
  expect(() => kernel.transaction.take()).toThrow('There is no open transaction.');
});
