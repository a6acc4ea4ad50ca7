import { expect, test } from 'vitest';
import { ExitCode, type Frame, FrameType } from '../protocol/kernel-frames.ts';
import { encodeValue } from '../protocol/kernel-marshal.ts';
import type { ProcessExit } from '../protocol/process.ts';
import { CallbackEventSink } from './event-queue.ts';
import { Kernel } from './kernel.ts';
import type { ByteSource, FrameConnection, KernelConnection } from './kernel-connection.ts';
import { KernelExecution } from './kernel-execution.ts';

const silent: ByteSource = { read: (_onChunk, onEnd) => onEnd(), resume: () => {}, close: () => {} };

const unending: ByteSource = { ...silent, read: () => {} };

/** A kernel whose frames and end come from the test. */
function scripted({ output = silent } = {}) {
  const exited = Promise.withResolvers<ProcessExit>();
  const killed = Promise.withResolvers<void>();
  let isPaused = false;
  let [say, hangUp]: [(frame: Frame) => void, () => void] = [() => {}, () => {}];
  const control: FrameConnection = {
    read: (onFrame, onEnd) => {
      [say, hangUp] = [onFrame, onEnd];
    },
    send: () => {},
    sendAndDrain: async () => {},
    pause: () => {
      isPaused = true;
    },
    resume: () => {
      isPaused = false;
    },
    close: () => {},
  };
  const link: KernelConnection = {
    ...{ control, stdout: output, stderr: output, exited: exited.promise },
    ...{ interrupt: () => {}, kill: killed.resolve },
  };
  const kernel = new Kernel(link, { background: () => {} });
  return {
    kernel,
    killed: killed.promise,
    exit: exited.resolve,
    say: (frame: Frame) => say(frame),
    hangUp: () => hangUp(),
    isPaused: () => isPaused,
  };
}

const settings = { timeoutMs: 60_000, graceMs: 1, inputTimeoutMs: 1000, outputLimitBytes: 1000 };
const tag = new Uint8Array(16).fill(255);
const hello = {
  ...{ type: FrameType.hello, id: 0 },
  payload: encodeValue({ python: '3.11.2', implementation: 'cpython', tag }),
};

const turns = () => new Promise((resolve) => setTimeout(resolve, 20));

test('the reason why a kernel could not be isolated is reported, even if its end is known before', async () => {
  const { kernel, exit, say, hangUp } = scripted();
  exit({ code: 1 });
  await turns();
  say({ type: FrameType.failed, id: 0, payload: Buffer.from('{"layer":"namespaces","message":"no pivot_root"}') });
  hangUp();
  await expect(kernel.ready).rejects.toMatchObject({ code: 'SANDBOX_UNAVAILABLE', details: { layer: 'namespaces' } });
  await kernel.died;
});

test('a kernel that could not be isolated and could not report it does not count as out of memory', async () => {
  const start = scripted();
  start.exit({ code: ExitCode.notIsolated });
  start.hangUp();
  await expect(start.kernel.ready).rejects.toMatchObject({ code: 'SANDBOX_UNAVAILABLE' });
  const full = scripted();
  full.exit({ code: ExitCode.outOfMemory });
  full.hangUp();
  await expect(full.kernel.ready).rejects.toMatchObject({ code: 'KERNEL_OUT_OF_MEMORY' });
});

test('a kernel that ends without a message has died', async () => {
  const { kernel, exit, hangUp } = scripted();
  exit({ signal: 'SIGKILL' });
  await turns();
  hangUp();
  await expect(kernel.ready).rejects.toMatchObject({ code: 'KERNEL_DIED' });
});

test('a kernel whose connection another process holds is not waited for forever', async () => {
  const { kernel, exit } = scripted();
  exit({ signal: 'SIGKILL' });
  await expect(kernel.ready).rejects.toMatchObject({ code: 'KERNEL_DIED' });
});

test('an answer of a kernel that was killed has no effect: its cell ends with it, and no other begins there', async () => {
  const { kernel, killed, exit, say, hangUp } = scripted();
  say(hello);
  await kernel.ready;
  const soon = { ...settings, timeoutMs: 1 };
  const execution = new KernelExecution(1, 'while True: pass', soon, new CallbackEventSink(() => {}));
  const result = kernel.execute(execution);
  await killed;
  say({ type: FrameType.result, id: 1, payload: encodeValue({ status: 'ok', markers: [0, 0] }) });
  expect(kernel.idle).toBe(false);
  exit({ signal: 'SIGKILL' });
  hangUp();
  expect(await result).toMatchObject({ status: 'timeout', death: { signal: 'SIGKILL' } });
});

test('a kernel is not read while 64 MiB of its frames wait for output', async () => {
  const { kernel, exit, say, hangUp, isPaused } = scripted({ output: unending });
  say(hello);
  await kernel.ready;
  const result = kernel.execute(new KernelExecution(1, 'display()', settings, new CallbackEventSink(() => {})));
  const payload = encodeValue({ data: { 'text/plain': 'x'.repeat(8_000_000) }, markers: [1, 0] });
  const paused = Array.from({ length: 9 }, () => {
    say({ type: FrameType.display, id: 1, payload });
    return isPaused();
  });
  expect(paused).toEqual([...Array.from({ length: 8 }, () => false), true]);
  exit({ signal: 'SIGKILL' });
  hangUp();
  await result;
});
