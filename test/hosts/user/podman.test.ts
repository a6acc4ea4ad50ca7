/** Podman as an ordinary user runs it, without root: the same ids inside as outside, and limits whatever the engine can do. */

import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ownEngine } from '../../faults/container/own-engine.ts';
import { runUntilReady, scratchFolder } from '../../support/kernels/session.ts';

const { open, containersOf, containerOf } = ownEngine('podman');

test('code has the uid of its host, no privileges, and its folders', async () => {
  const cwd = await scratchFolder();
  await using session = await open({ cwd });
  const { value } = await session.run(`
import os
open("mine", "w").write("text")
status = dict(line.rstrip("\\n").split(":\\t", 1) for line in open("/proc/self/status") if ":\\t" in line)
[os.getuid(), os.getgid(), status["CapEff"], status["NoNewPrivs"], status["Seccomp"]]`);
  expect(value).toEqual([process.getuid?.(), process.getgid?.(), '0000000000000000', '1', '2']);
  expect(readFileSync(join(cwd, 'mine'), 'utf8')).toBe('text');
  expect(statSync(join(cwd, 'mine')).uid).toBe(process.getuid?.());
});

test('memory has its limit, and the next cell runs in a fresh kernel', async () => {
  await using session = await open({ limits: { memoryMb: 128 } });
  const hog = 'held = []\nwhile True: held.append(b"x" * (1 << 24))';
  expect(await session.run(hog)).toMatchObject({ error: { name: expect.stringMatching(/Memory|MEMORY/) } });
  expect(await session.run('1 + 1')).toMatchObject({ status: 'ok', value: 2 });
});

test('memory that is shared among processes has its limit too', async () => {
  await using session = await open({ limits: { memoryMb: 128 } });
  const hog =
    'import mmap\nheld = []\nwhile True:\n    held.append(mmap.mmap(-1, 1 << 24)); held[-1].write(b"x" * (1 << 24))';
  expect((await session.run(hog)).error?.name).toMatch(/OSError|KERNEL_OUT_OF_MEMORY/);
  expect(await session.run('1 + 1')).toMatchObject({ status: 'ok', value: 2 });
});

test('processes have their limit', async () => {
  await using session = await open({ limits: { processes: 32 } });
  const { error } = await session.run(`
import os, time
for _ in range(64):
    if os.fork() == 0:
        time.sleep(1000)`);
  expect(error).toMatchObject({ name: 'BlockingIOError' });
});

test('a killed container recovers, and a closed one is removed', async () => {
  const dataDir = await scratchFolder();
  const session = await open({ dataDir });
  await session.run('kept = [1, 2]');
  await session.save();
  const { result } = await runUntilReady(session, 'print("ready", flush=True)\nwhile True: pass');
  await (await containerOf(dataDir)).kill();
  expect(await result).toMatchObject({ status: 'died', error: { name: 'KERNEL_DIED' } });
  expect(await session.run('kept')).toMatchObject({ status: 'ok', value: [1, 2], recovered: expect.anything() });
  await session.close();
  // Whoever closes a session does not wait for an engine that is busy.
  await expect.poll(() => containersOf(dataDir)).toEqual([]);
});
