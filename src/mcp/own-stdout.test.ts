import { PassThrough } from 'node:stream';
import { expect, it, onTestFinished } from 'vitest';
import { takeStdout } from './own-stdout.ts';

it('whatever else is written to stdout goes to stderr', async () => {
  const before = globalThis.console;
  onTestFinished(() => {
    globalThis.console = before;
  });
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const own = takeStdout({ stdout, stderr });
  console.log('a stray line');
  stdout.write('another\n');
  own.write('{"jsonrpc":"2.0"}\n');
  expect(String(stdout.read())).toBe('{"jsonrpc":"2.0"}\n');
  expect(String(stderr.read())).toBe('a stray line\nanother\n');
});

it('a reader that is gone ends the stream', async () => {
  const before = globalThis.console;
  onTestFinished(() => {
    globalThis.console = before;
  });
  const stdout = new PassThrough();
  const own = takeStdout({ stdout, stderr: new PassThrough() });
  const failed = new Promise((resolve) => own.on('error', resolve));
  stdout.destroy(new Error('EPIPE'));
  expect(await failed).toMatchObject({ message: 'EPIPE' });
});
