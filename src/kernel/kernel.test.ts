import { expect, test } from 'vitest';
import { type Frame, FrameType } from '../protocol/frames.ts';
import { Kernel } from './kernel.ts';
import type { ByteSource, Exit, FrameLink, KernelLink } from './link.ts';

const silent: ByteSource = { read: (_onChunk, onEnd) => onEnd(), resume: () => {}, close: () => {} };

/** A kernel that says and does what the test says. */
function scripted() {
  const exited = Promise.withResolvers<Exit>();
  let [say, hangUp]: [(frame: Frame) => void, () => void] = [() => {}, () => {}];
  const control: FrameLink = {
    read: (onFrame, onEnd) => {
      [say, hangUp] = [onFrame, onEnd];
    },
    send: () => {},
    sendSlowly: async () => {},
    ...{ pause: () => {}, resume: () => {}, close: () => {} },
  };
  const link: KernelLink = {
    ...{ control, stdout: silent, stderr: silent, exited: exited.promise },
    ...{ interrupt: () => {}, kill: () => {} },
  };
  const kernel = new Kernel(link, { background: () => {} });
  return { kernel, exit: exited.resolve, say: (frame: Frame) => say(frame), hangUp: () => hangUp() };
}

const turns = () => new Promise((resolve) => setTimeout(resolve, 20));

test('why a kernel could not be closed in is told, also where its end is known before', async () => {
  const { kernel, exit, say, hangUp } = scripted();
  exit({ outOfMemory: false, exitCode: 1 });
  await turns();
  say({ type: FrameType.failed, id: 0, payload: Buffer.from('{"layer":"namespaces","message":"no pivot_root"}') });
  hangUp();
  await expect(kernel.ready).rejects.toMatchObject({ code: 'SANDBOX_UNAVAILABLE', details: { layer: 'namespaces' } });
  await kernel.died;
});

test('a kernel that ends without a word has died', async () => {
  const { kernel, exit, hangUp } = scripted();
  exit({ outOfMemory: false, signal: 'SIGKILL' });
  await turns();
  hangUp();
  await expect(kernel.ready).rejects.toMatchObject({ code: 'KERNEL_DIED' });
});

test('a kernel whose connection somebody else holds is not waited for without end', async () => {
  const { kernel, exit } = scripted();
  exit({ outOfMemory: false, signal: 'SIGKILL' });
  await expect(kernel.ready).rejects.toMatchObject({ code: 'KERNEL_DIED' });
});
