/** What can go wrong in the in-process executor: memory, code that never stops, workers that die, and its start snapshot. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdirSync, readdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, inject, it, onTestFinished } from 'vitest';
import { LONGEST_KILL_MS } from '../../../src/lib/process-end.ts';
import { openings } from '../../support/kernels/host-processes.ts';
import { openInProcess as open } from '../../support/kernels/in-process.ts';
import { runUntilReady, scratchFolder } from '../../support/kernels/session.ts';
import { fillsAllMemory } from './resources.ts';

const NEVER = 1_000_000_000;
const snapshots = (dataDir: string) => join(dataDir, 'cache', 'pyodide');

describe('memory in the in-process executor', () => {
  it('ends at the limit with a MemoryError, and the variables stay', async () => {
    await using session = await open({ limits: { memoryMb: 128 } });
    await session.run('x = [1]');
    const hog = await session.run('hog = []\nwhile True: hog.append(bytearray(1 << 20))');
    expect(hog).toMatchObject({ status: 'error', error: { name: 'MemoryError' } });
    expect((await session.run('x, 40 < len(hog) < 128')).value).toEqual([[1], true]);
    expect((await session.run('del hog; len(bytearray(32 << 20))')).value).toBe(32 << 20);
  });

  it('requested in one piece beyond the limit is a MemoryError too', async () => {
    await using session = await open({ limits: { memoryMb: 128 } });
    expect((await session.run('bytearray(200 << 20)')).error?.name).toBe('MemoryError');
    expect((await session.run('1')).value).toBe(1);
  });

  it('used up to the last byte leaves the kernel alive, or the death has the right reason', () => fillsAllMemory(open));
});

describe('code that never stops in the in-process executor', () => {
  /** An interrupt may come at any moment after the first word, and never gets it out. */
  const deaf = (work: string) =>
    `x.append(2)\nwhile True:\n    try:\n        print("ready", flush=True)\n        ${work}\n    except KeyboardInterrupt: pass`;

  it.each([
    ['an endless loop that ignores interrupts', 'while True: pass'],
    ['an endless loop of C code', 'deque(repeat(0), maxlen=0)'],
  ])('%s ends with its worker after the grace period, and the last save comes back', async (_name, code) => {
    await using session = await open({ graceMs: 100, saveAfterMs: NEVER });
    await session.run('from collections import deque\nfrom itertools import repeat\nx = [1]');
    await session.save();
    const { result } = await runUntilReady(session, deaf(code));
    await session.interrupt();
    expect(await result).toMatchObject({ status: 'interrupted', death: { signal: 'SIGKILL' } });
    const restored = expect.arrayContaining(['x']);
    expect(await session.run('x')).toMatchObject({ value: [1], recovered: { restored } });
  });

  it('ends at its timeout in the same way', async () => {
    await using session = await open({ graceMs: 100 });
    expect(await session.run(`x = []\n${deaf('while True: pass')}`, { timeoutMs: 200 })).toMatchObject({
      status: 'timeout',
      death: {},
    });
    expect((await session.run('1')).value).toBe(1);
  });
});

it('a SIGINT that the code sends itself right after an interrupt is a separate one', async () => {
  await using session = await open();
  const ways = [
    'os.kill(os.getpid(), signal.SIGINT)',
    'signal.raise_signal(signal.SIGINT)',
    '_thread.interrupt_main()',
  ];
  for (const way of ways) {
    // In one piece: the interrupt comes as soon as the word is heard.
    const code = `import _thread, os, signal
try:
    print("ready\\n", end="", flush=True)
    while True: pass
except KeyboardInterrupt:
    print("first", flush=True)
try:
    ${way}
    while True: pass
except KeyboardInterrupt:
    print("second", flush=True)`;
    const { result } = await runUntilReady(session, code);
    await session.interrupt();
    expect((await result).stdout).toBe('ready\nfirst\nsecond\n');
  }
});

describe('a worker that dies', () => {
  it.each<[string, string, object]>([
    ['by os._exit', 'import os; os._exit(5)', { exitCode: 5 }],
    ['by abort', 'import os; os.abort()', { signal: 'SIGABRT' }],
  ])('%s is reported, its snapshots are gone, and the last save is restored', async (_name, code, how) => {
    await using session = await open({ saveAfterMs: NEVER });
    await session.run('x = [1]');
    const { id } = await session.checkpoint({ name: 'live' });
    await session.save();
    expect(await session.run(`x.append(2)\n${code}`)).toMatchObject({ status: 'died', death: how });
    expect(await session.run('x')).toMatchObject({ value: [1], recovered: { cause: how, restored: ['x'] } });
    expect((await session.checkpoints()).find((one) => one.id === id)?.gone).toEqual(expect.any(String));
    await expect(session.restore('live')).rejects.toMatchObject({ code: 'CHECKPOINT_GONE' });
  });

  it('in an open transaction leaves nothing to decide', async () => {
    await using session = await open({ saveAfterMs: NEVER });
    await session.run('x = [1]');
    await session.save();
    expect(await session.run('x.append(2)', { transaction: 'explicit' })).toMatchObject({ transaction: 'open' });
    await session.rollback();
    expect((await session.run('x')).value).toEqual([1]);
    const died = await session.run('x.append(3)\nimport os; os._exit(1)', { transaction: 'explicit' });
    expect(died.status).toBe('died');
    await expect(session.commit()).rejects.toMatchObject({ code: 'NO_TRANSACTION' });
    expect((await session.run('x')).value).toEqual([1]);
  });
});

/** Keeps whoever opens this file waiting, for `lease-break-time` at most, as a file system that hangs does. */
async function lease(path: string): Promise<void> {
  const code = `import fcntl, os, signal, sys, time
signal.signal(signal.SIGIO, signal.SIG_IGN)
fcntl.fcntl(os.open(sys.argv[1], os.O_RDWR | os.O_CREAT), fcntl.F_SETLEASE, fcntl.F_WRLCK)
print(flush=True)
time.sleep(600)`;
  const holder = spawn('python3', ['-c', code, path], { stdio: ['ignore', 'pipe', 'inherit'] });
  onTestFinished(async () => {
    holder.kill('SIGKILL');
    await once(holder, 'exit');
  });
  await once(holder.stdout, 'data');
}

it('a worker thread that cannot be ended is abandoned: the cell gets a result, and the session continues and closes', async () => {
  await using session = await open({ graceMs: 100, saveAfterMs: NEVER });
  await session.run('x = [1]');
  await session.save();
  await lease(join(session.cwd, 'leased'));
  const warned = once(process, 'warning');
  const began = performance.now();
  const hung = await session.run('open("leased").read()', { timeoutMs: 500 });
  expect(hung).toMatchObject({ status: 'timeout', death: { code: 'KERNEL_DIED' } });
  expect(performance.now() - began).toBeLessThan(LONGEST_KILL_MS + 10_000);
  expect(String(await warned)).toContain('worker thread');
  expect(await session.run('x')).toMatchObject({ value: [1], recovered: { restored: ['x'] } });
  await session.close();
}, 60_000);

describe('the start snapshot', { timeout: 300_000 }, () => {
  const host = (dataDir: string, agentKey: string) =>
    openings({ sessions: [{ dataDir, agentKey, executor: 'in-process', startTimeoutMs: 240_000 }] });
  const works = [{ code: 'ok', value: 42, pid: 0 }];

  /** A data folder with the snapshot that all start from, in its place and as it should be. */
  async function prepared(): Promise<{ dataDir: string; path: string; whole: Buffer }> {
    const dataDir = await scratchFolder();
    const made = join(inject('sharedCache'), 'pyodide');
    const [name = ''] = readdirSync(made).filter((one) => one.endsWith('.snapshot'));
    mkdirSync(snapshots(dataDir), { recursive: true });
    const path = join(snapshots(dataDir), name);
    copyFileSync(join(made, name), path);
    return { dataDir, path, whole: readFileSync(path) };
  }

  it('that is truncated is created again, and is complete', async () => {
    const { dataDir, path, whole } = await prepared();
    truncateSync(path, whole.length >> 1);
    expect(await host(dataDir, 'one')).toEqual(works);
    expect(readFileSync(path).length).toBe(whole.length);
  });

  it('that is damaged is created again by two hosts at once, and both run', async () => {
    const { dataDir, path, whole } = await prepared();
    const middle = whole.length >> 1;
    whole[middle] = (whole[middle] ?? 0) ^ 0xff;
    writeFileSync(path, whole);
    expect(await Promise.all(['one', 'two'].map((key) => host(dataDir, key)))).toEqual([works, works]);
    const made = readFileSync(path);
    expect([made.length, made[middle] === whole[middle]]).toEqual([whole.length, false]);
    expect(readdirSync(snapshots(dataDir)).map((name) => name.replace(/.*\./, ''))).toEqual(['snapshot']);
  });
});

it('a start that takes too long is reported', async () => {
  // Another module is in no snapshot yet, and one takes longer than this to make.
  await expect(open({ preload: ['wave'], startTimeoutMs: 100 })).rejects.toMatchObject({
    code: 'TEMPLATE_FAILED',
    message: expect.stringContaining('0.1 s'),
  });
});
