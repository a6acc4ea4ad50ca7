import { expect, test } from 'vitest';
import { expectNoStall } from '../../test/support/servers/stalls.ts';
import { FrameType, KernelLimit } from '../protocol/kernel-frames.ts';
import { encodeValue } from '../protocol/kernel-marshal.ts';
import { type CallHandler, HostCallRunner, HostCalls } from './host-calls.ts';
import { KernelBudget } from './kernel-budget.ts';

/** The calls of one kernel, which accepts a reply when the test calls `take`. */
function calls() {
  const begun: string[] = [];
  const delivered: number[] = [];
  const replied: { id: number; bytes: number; take: () => void }[] = [];
  const handler: CallHandler = {
    call: (method, _params, context) => {
      const number = begun.push(method);
      void context.delivered.then(() => delivered.push(number));
      return Promise.resolve(method === 'skills.search' ? new Uint8Array(257 * 1024 * 1024) : method);
    },
    close: () => undefined,
  };
  const hostCalls = new HostCallRunner(handler, {
    reply: (id, { length: bytes }) => new Promise((take) => replied.push({ id, bytes, take })),
    progress: () => undefined,
    asking: () => undefined,
  });
  const start = (id: number, method: string) => hostCalls.start({ id, method, params: {}, estimatedBytes: 0 });
  return { begun, delivered, replied, start, hostCalls };
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

test('a call with a large reply begins when the kernel has accepted the one before; others do not wait', async () => {
  const { begun, replied, start } = calls();
  start(1, 'artifacts.read');
  start(2, 'artifacts.list');
  start(3, 'tools.call');
  await settled();
  expect(begun).toEqual(['tools.call', 'artifacts.read']);
  replied.find(({ id }) => id === 1)?.take();
  await settled();
  expect(begun).toEqual(['tools.call', 'artifacts.read', 'artifacts.list']);
});

test('a handler learns when the kernel has accepted the reply, or is gone', async () => {
  const { delivered, replied, start, hostCalls } = calls();
  start(1, 'tools.call');
  start(2, 'tools.call');
  await settled();
  expect(delivered).toEqual([]);
  replied.find(({ id }) => id === 2)?.take();
  await settled();
  expect(delivered).toEqual([2]);
  start(3, 'tools.wait');
  hostCalls.close();
  await settled();
  expect(delivered).toEqual([2, 3]);
});

test('waiting calls do not begin for a dead kernel', async () => {
  const { begun, replied, start, hostCalls } = calls();
  start(1, 'artifacts.read');
  start(2, 'artifacts.read');
  await settled();
  hostCalls.close();
  for (const { take } of replied) take();
  await settled();
  expect(begun).toEqual(['artifacts.read']);
});

test('a reply that is too large for the connection becomes an error', async () => {
  const { replied, start } = calls();
  start(1, 'skills.search');
  await settled();
  expect(replied).toMatchObject([{ id: 1 }]);
  expect(replied[0]?.bytes).toBeLessThan(1000);
});

test('a large reply is encoded completely, with turns for other work', async () => {
  const item = Object.fromEntries(Array.from({ length: 2000 }, (_, number) => [`key${number}`, [number, 'text']]));
  const value = { texts: ['\udc80'.repeat(3_000_000), 'x\ud83d\ude00'.repeat(400_000)], items: Array(400).fill(item) };
  const payloads: Buffer[] = [];
  const work = () =>
    new Promise<void>((resolve) => {
      const hostCalls = new HostCallRunner(
        { call: () => Promise.resolve(value), close: () => undefined },
        {
          reply: async (_id, payload) => {
            payloads.push(payload);
            resolve();
          },
          progress: () => undefined,
          asking: () => undefined,
        },
      );
      hostCalls.start({ id: 1, method: 'skills.list', params: {}, estimatedBytes: 0 });
    });
  await expectNoStall(work);
  expect(payloads[0]?.length).toBeGreaterThan(20_000_000);
});

test('while the kernel reads no replies, its next calls wait', async () => {
  const accepted: (() => void)[] = [];
  let hasRoom = 0;
  const calls = new HostCalls({
    connection: { sendAndDrain: () => new Promise((resolve) => accepted.push(resolve)) },
    output: { reached: () => true, release: () => undefined },
    budget: new KernelBudget(),
    handler: { call: () => Promise.resolve(null), close: () => undefined },
    generation: 0,
    running: () => undefined,
    progress: () => undefined,
    asking: () => undefined,
    room: () => {
      hasRoom += 1;
    },
  });
  const payload = encodeValue(['tools.list', {}]);
  const make = async (id: number) => {
    const taken = calls.take({ type: FrameType.call, id, payload }, { method: 'tools.list', params: {}, items: 2 });
    await settled();
    return taken;
  };
  let made = 0;
  while (made < 10 * KernelLimit.mostCalls && (await make(made))) made += 1;
  expect(made).toBe(4 * KernelLimit.mostCalls);
  expect(await make(made)).toBe(false);
  accepted[0]?.();
  await settled();
  expect(hasRoom).toBe(1);
  expect(await make(made)).toBe(true);
});
