/** Installers that flood, linger, hang or are not there. */

import { tmpdir } from 'node:os';
import { expect, it, vi } from 'vitest';
import { type InstallerRun, runInstaller } from '../../../src/namespaces/deps/run-installer.ts';
import { PYTHON } from '../../support/packages/deps.ts';
import { isAlive } from '../../support/processes/processes.ts';

function python(code: string, options: Partial<InstallerRun> = {}) {
  return runInstaller({
    command: PYTHON,
    args: ['-I', '-c', code],
    identity: { root: false, uid: 0, gid: 0 },
    cwd: tmpdir(),
    env: {},
    timeoutMs: 20_000,
    signal: new AbortController().signal,
    ...options,
  });
}

it('a line without end and endless lines are truncated', async () => {
  const { ending, lines } = await python('print("x" * 30_000_000)\nfor n in range(20_000): print(n)\nprint("last")');
  expect(ending).toEqual({ kind: 'ended', code: 0 });
  expect(lines.at(-1)).toBe('last');
  expect(lines.length).toBeLessThan(1000);
  const { lines: long } = await python('print("x" * 30_000_000)');
  expect(long.join('').length).toBeLessThan(2000);
});

it('colours and control characters are removed', async () => {
  const { lines } = await python(String.raw`print("\x1b[31mERROR: no\x1b[0m\x07\x08")`);
  expect(lines).toEqual(['ERROR: no']);
});

it('processes that it leaves running are ended', async () => {
  const child = 'import subprocess\nprint(subprocess.Popen(["sleep", "1000"]).pid, flush=True)';
  const { ending, lines } = await python(child);
  expect(ending).toMatchObject({ kind: 'ended', code: 0 });
  await vi.waitFor(() => expect(isAlive(Number(lines[0]))).toBe(false), { timeout: 20_000 });
});

it('one that hangs is stopped by its timeout and by its caller, with its child processes', async () => {
  const hang = 'import subprocess\nprint(subprocess.Popen(["sleep", "1000"]).pid, flush=True)\nwhile True: pass';
  const stop = new AbortController();
  const aborted = await python(hang, { signal: stop.signal, onLine: () => stop.abort() });
  expect(aborted.ending).toEqual({ kind: 'aborted' });
  await vi.waitFor(() => expect(isAlive(Number(aborted.lines[0]))).toBe(false), { timeout: 20_000 });
  expect((await python('while True: pass', { timeoutMs: 100 })).ending).toEqual({ kind: 'timed-out' });
});

it('one that is missing or not executable is reported', async () => {
  expect((await python('', { command: '/no/such/program' })).ending).toMatchObject({ kind: 'not-started' });
  expect((await python('', { command: '/etc/passwd' })).ending).toMatchObject({ kind: 'not-started' });
});
