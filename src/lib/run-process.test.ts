/** A program ends with everything that it has started, and nothing that holds its pipes holds up its end. */

import { tmpdir } from 'node:os';
import { expect, test } from 'vitest';
import { runProcess, startProcess } from './run-process.ts';

const options = { cwd: tmpdir(), timeoutMs: 60_000, outputLimitBytes: 1000 };

test('a pipe that a process in another session holds open is given up', async () => {
  const began = performance.now();
  // The shell ends when the other has left its process group.
  const script = `ready=$(mktemp -u); setsid sh -c 'echo $$; : > "$0"; exec sleep 20' "$ready" &
    until rm "$ready" 2>&-; do :; done; exit 3`;
  const { exit, stdout } = await runProcess(['sh', '-c', script], options);
  expect(exit).toEqual({ code: 3 });
  expect(performance.now() - began).toBeLessThan(10_000);
  process.kill(Number(stdout), 'SIGKILL');
});

test('a process in another session that keeps writing is given up, too', async () => {
  const began = performance.now();
  // `yes` ends by SIGPIPE when its pipe is closed.
  const script = `ready=$(mktemp -u); setsid sh -c ': > "$0"; exec yes' "$ready" &
    until rm "$ready" 2>&-; do :; done; exit 3`;
  const { exit, stdout, stdoutCut } = await runProcess(['sh', '-c', script], options);
  expect(exit).toEqual({ code: 3 });
  expect(performance.now() - began).toBeLessThan(10_000);
  expect(stdout).toHaveLength(1000);
  expect(stdoutCut).toBeGreaterThan(0);
});

test('output is kept for a later reader', async () => {
  const { exited, stdout } = startProcess(['sh', '-c', 'head -c 100000 /dev/zero'], { cwd: tmpdir() });
  await new Promise((resolve) => stdout.once('readable', resolve));
  const reading = (async () => {
    let bytes = 0;
    for await (const chunk of stdout) bytes += chunk.length;
    return bytes;
  })();
  expect([await exited, await reading]).toEqual([{ code: 0 }, 100_000]);
});

test('its lines arrive as they are written; a long one is truncated, and the last may have no newline', async () => {
  const lines: string[] = [];
  const script = 'echo one; echo two >&2; head -c 5000 /dev/zero | tr "\\0" x; echo; printf last';
  await runProcess(['sh', '-c', script], { ...options, onLine: (line, stream) => lines.push(`${stream}: ${line}`) });
  expect(lines.filter((line) => line.startsWith('stdout'))).toEqual([
    'stdout: one',
    `stdout: ${'x'.repeat(1000)}`,
    'stdout: last',
  ]);
  expect(lines).toContain('stderr: two');
});

test('is killed at its timeout and if its caller stops, with everything it has started', async () => {
  const hang = ['sh', '-c', 'sleep 1000 & echo $!; wait'];
  const late = await runProcess(hang, { ...options, timeoutMs: 300 });
  expect(late).toMatchObject({ exit: { signal: 'SIGKILL' }, timedOut: true });
  const stop = new AbortController();
  const stopped = await runProcess(hang, { ...options, signal: stop.signal, onLine: () => stop.abort() });
  expect(stopped).toMatchObject({ exit: { signal: 'SIGKILL' }, timedOut: false });
});

test.each([['/no/such/program'], ['x'.repeat(3_000_000)]])(
  'a program that cannot be started is an error',
  async (argv) => {
    await expect(runProcess([argv], options)).rejects.toMatchObject({ syscall: expect.stringContaining('spawn') });
  },
);
