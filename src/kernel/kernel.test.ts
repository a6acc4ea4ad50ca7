import { expect, test } from 'vitest';
import { type Frame, FrameType } from '../protocol/kernel-frames.ts';
import { ExitCode } from '../protocol/kernel-limits.ts';
import { encodeValue } from '../protocol/kernel-marshal.ts';
import type { ProcessExit } from '../protocol/process.ts';
import { EventListener } from './event-queue.ts';
import { Kernel } from './kernel.ts';
import type { ByteSource, FrameConnection, KernelConnection } from './kernel-connection.ts';
import { KernelExecution } from './kernel-execution.ts';

const silent: ByteSource = { read: (_onChunk, onEnd) => onEnd(), resume: () => {}, close: () => {} };

/** A kernel that says and does what the test says. */
function scripted() {
  const exited = Promise.withResolvers<ProcessExit>();
  const killed = Promise.withResolvers<void>();
  let [say, hangUp]: [(frame: Frame) => void, () => void] = [() => {}, () => {}];
  const control: FrameConnection = {
    read: (onFrame, onEnd) => {
      [say, hangUp] = [onFrame, onEnd];
    },
    send: () => {},
    sendAndDrain: async () => {},
    ...{ pause: () => {}, resume: () => {}, close: () => {} },
  };
  const link: KernelConnection = {
    ...{ control, stdout: silent, stderr: silent, exited: exited.promise },
    ...{ interrupt: () => {}, kill: killed.resolve },
  };
  const kernel = new Kernel(link, { background: () => {} });
  return {
    kernel,
    killed: killed.promise,
    exit: exited.resolve,
    say: (frame: Frame) => say(frame),
    hangUp: () => hangUp(),
  };
}

const turns = () => new Promise((resolve) => setTimeout(resolve, 20));

test('why a kernel could not be closed in is told, also where its end is known before', async () => {
  const { kernel, exit, say, hangUp } = scripted();
  exit({ code: 1 });
  await turns();
  say({ type: FrameType.failed, id: 0, payload: Buffer.from('{"layer":"namespaces","message":"no pivot_root"}') });
  hangUp();
  await expect(kernel.ready).rejects.toMatchObject({ code: 'SANDBOX_UNAVAILABLE', details: { layer: 'namespaces' } });
  await kernel.died;
});

test('a kernel that could not be isolated and could not report it is not taken for one without memory', async () => {
  const start = scripted();
  start.exit({ code: ExitCode.notIsolated });
  start.hangUp();
  await expect(start.kernel.ready).rejects.toMatchObject({ code: 'SANDBOX_UNAVAILABLE' });
  const full = scripted();
  full.exit({ code: ExitCode.outOfMemory });
  full.hangUp();
  await expect(full.kernel.ready).rejects.toMatchObject({ code: 'KERNEL_OUT_OF_MEMORY' });
});

test('a kernel that ends without a word has died', async () => {
  const { kernel, exit, hangUp } = scripted();
  exit({ signal: 'SIGKILL' });
  await turns();
  hangUp();
  await expect(kernel.ready).rejects.toMatchObject({ code: 'KERNEL_DIED' });
});

test('a kernel whose connection somebody else holds is not waited for without end', async () => {
  const { kernel, exit } = scripted();
  exit({ signal: 'SIGKILL' });
  await expect(kernel.ready).rejects.toMatchObject({ code: 'KERNEL_DIED' });
});

test('what a kernel answers after it was killed is no sign of life: its cell ends with it, and no other begins there', async () => {
  const { kernel, killed, exit, say, hangUp } = scripted();
  const tag = new Uint8Array(16).fill(255);
  say({ type: FrameType.hello, id: 0, payload: encodeValue({ python: '3.11.2', implementation: 'cpython', tag }) });
  await kernel.ready;
  const settings = { timeoutMs: 1, graceMs: 1, inputTimeoutMs: 1000, outputLimitBytes: 1000 };
  const execution = new KernelExecution(1, 'while True: pass', settings, new EventListener(() => {}));
  const result = kernel.execute(execution);
  await killed;
  say({ type: FrameType.result, id: 1, payload: encodeValue({ status: 'ok', markers: [0, 0] }) });
  expect(kernel.idle).toBe(false);
  exit({ signal: 'SIGKILL' });
  hangUp();
  expect(await result).toMatchObject({ status: 'timeout', death: { signal: 'SIGKILL' } });
});
