import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { ByteSource } from '../kernel/kernel-connection.ts';
import { SILENT_PIPE_MS } from '../lib/run-process.ts';
import { toReadable } from './kernel-host.ts';

/** A source that another process keeps open. */
function openSource() {
  let onChunk = (_: Buffer) => false;
  let onEnd = () => {};
  const source: ByteSource = {
    read: (chunk, end) => {
      onChunk = chunk;
      onEnd = end;
    },
    resume: () => {},
    close: () => onEnd(),
  };
  return { source, write: (text: string) => onChunk(Buffer.from(text)) };
}

test('output that arrives after the exit is read, and ends even if another process keeps it open', async () => {
  const { source, write } = openSource();
  const exited = Promise.withResolvers<void>();
  const output = toReadable(source, exited.promise)[Symbol.asyncIterator]();
  const first = output.next();
  write('before');
  expect(String((await first).value)).toBe('before');
  exited.resolve();
  const second = output.next();
  write('after');
  expect(String((await second).value)).toBe('after');
  expect(await output.next()).toEqual({ value: undefined, done: true });
});

test('the time in which the reader is slow does not count as silence', async () => {
  const { source, write } = openSource();
  const stream = toReadable(source, Promise.resolve());
  stream.read(0);
  write('x'.repeat(stream.readableHighWaterMark));
  await once(stream, 'readable');
  await delay(1.5 * SILENT_PIPE_MS);
  const output = stream[Symbol.asyncIterator]();
  await output.next();
  const next = output.next();
  write('more');
  expect(String((await next).value)).toBe('more');
  stream.destroy();
});
