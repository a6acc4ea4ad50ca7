/** KernelPool: one kernel for each agent key, a ceiling on how many live, and nothing lost when one must sleep. */

import { setImmediate } from 'node:timers/promises';
import { describe, expect, onTestFinished, test } from 'vitest';
import { KernelPool, type PoolOptions, type SessionOptions } from '../../../src/index.ts';
import type { AcquireOptions } from '../../../src/session/kernel-pool.ts';
import { eventually } from '../../support/kernels/attack-code.ts';
import { scratchFolder } from '../../support/kernels/session.ts';
import { descendants, isAlive, type Process, templatesOf } from '../../support/processes/processes.ts';

async function pool(options: PoolOptions = {}): Promise<KernelPool> {
  const dataDir = await scratchFolder();
  const made = new KernelPool({ ...options, session: { dataDir, ...options.session } });
  onTestFinished(() => made.shutdown());
  return made;
}

/** Sandboxes with a kernel in them, as the host sees them: children of a template that have children of their own. */
function sandboxes(templates = templatesOf(process.pid)): Set<number> {
  const pids = templates.flatMap((template) => {
    const all = descendants(template.pid);
    const hasKernel = ({ pid }: Process) => all.some(({ parent }) => parent === pid);
    return all.filter((one) => one.parent === template.pid && hasKernel(one)).map(({ pid }) => pid);
  });
  return new Set(pids);
}

/** Those that are there at one moment: a look takes a while, and sees one that ends and another that begins in it. */
function sandboxesAtOnce(templates: ReturnType<typeof templatesOf>): Set<number> {
  return sandboxes(templates).intersection(sandboxes(templates));
}

describe('a pool', () => {
  test('returns the same kernel for a key, and another for another key', async () => {
    const kernels = await pool();
    const one = await kernels.acquire('one');
    await one.run('x = 1');
    kernels.release('one');
    expect(await kernels.acquire('one')).toBe(one);
    const two = await kernels.acquire('two');
    expect((await two.run("'x' in globals()")).value).toBe(false);
    expect(await kernels.metrics()).toMatchObject({ live: 2, hibernated: 0, hits: 1 });
  });

  test('forks a key to another, which is then independent', async () => {
    const kernels = await pool();
    await (await kernels.acquire('one')).run('x = [1]');
    const fork = await kernels.fork('one', { agentKey: 'two' });
    expect((await fork.run('x.append(2); x')).value).toEqual([1, 2]);
    expect(await kernels.acquire('two')).toBe(fork);
    expect((await (await kernels.acquire('one')).run('x')).value).toEqual([1]);
    expect(await kernels.metrics()).toMatchObject({ live: 2 });
    await expect(kernels.fork('one', { agentKey: 'two' })).rejects.toMatchObject({ code: 'KEY_BUSY' });
    await expect(kernels.fork('one', { agentKey: 'three', from: 'nowhere' })).rejects.toMatchObject({
      code: 'CHECKPOINT_NOT_FOUND',
    });
    expect((await (await kernels.acquire('three')).run("'x' in globals()")).value).toBe(false);
  });

  test('starts one kernel for a key, with any number of concurrent callers', async () => {
    const kernels = await pool();
    const before = sandboxes();
    const sessions = await Promise.all(Array.from({ length: 50 }, () => kernels.acquire('same')));
    expect(new Set(sessions).size).toBe(1);
    // Some of before may have ended.
    expect(sandboxes().difference(before).size).toBe(1);
  });

  test('never exceeds its limit of kernels, and restores every variable', async () => {
    const kernels = await pool({ maxKernels: 4, waitMs: 200_000 });
    const templates = templatesOf(process.pid);
    const before = sandboxes(templates);
    let most = 0;
    // Each look goes through all processes of the machine; a kernel lives for several of them.
    const watch = setInterval(() => {
      most = Math.max(most, sandboxesAtOnce(templates).difference(before).size);
    }, 50);
    onTestFinished(() => clearInterval(watch));
    const keys = Array.from({ length: 50 }, (_, index) => `agent ${index}`);
    await Promise.all(
      keys.map(async (key, index) => {
        const session = await kernels.acquire(key);
        expect((await session.run(`mine = ${index}`)).status).toBe('ok');
        kernels.release(key);
      }),
    );
    for (const [index, key] of keys.entries()) {
      expect((await (await kernels.acquire(key)).run('mine')).value).toBe(index);
    }
    expect(most).toBeLessThanOrEqual(4);
    const metrics = await kernels.metrics();
    expect(metrics.live).toBeLessThanOrEqual(4);
    expect(metrics.hibernated).toBe(50 - metrics.live);
    expect(metrics.waits).toBeGreaterThan(0);
  }, 240_000);

  test('gives the slot of a kernel to another only when the kernel is completely gone', async () => {
    const kernels = await pool({ maxKernels: 1 });
    const large = await kernels.acquire('large');
    // Memory that no save holds, and that takes the system a while to free.
    await large.run('import mmap\nheld = mmap.mmap(-1, 1 << 30)\nfor at in range(0, 1 << 30, 4096): held[at] = 1');
    const kernelsOfLarge = descendants(large.pid).map(({ pid }) => pid);
    expect(kernelsOfLarge.length).toBeGreaterThan(0);
    const small = await kernels.acquire('small');
    expect(kernelsOfLarge.filter(isAlive)).toEqual([]);
    expect((await small.run('1')).value).toBe(1);
  });

  test('hibernates the kernel that was idle longest first', async () => {
    const kernels = await pool({ maxKernels: 2 });
    const [old, young] = [await kernels.acquire('old'), await kernels.acquire('young')];
    await old.run('x = 1');
    await young.run('x = 2');
    await (await kernels.acquire('third')).run('1');
    expect([old.pid > 0, young.pid > 0]).toEqual([false, true]);
    expect((await old.run('x')).value).toBe(1);
  });

  test('makes a caller wait while all kernels are busy, and then fails', async () => {
    const kernels = await pool({ maxKernels: 1, waitMs: 300 });
    const busy = await kernels.acquire('busy');
    const running = busy.run('input()', { onInput: () => answered.promise });
    const answered = Promise.withResolvers<string>();
    await expect(kernels.acquire('late')).rejects.toMatchObject({ code: 'POOL_EXHAUSTED' });
    const waiting = kernels.acquire('patient', {}, { waitMs: 30_000 });
    answered.resolve('done');
    expect((await running).value).toBe('done');
    expect((await (await waiting).run('1 + 1')).value).toBe(2);
  });

  test('restarts only the key whose environment or folder has changed', async () => {
    const kernels = await pool();
    const own = (value: string): Omit<SessionOptions, 'agentKey'> => ({ env: { MODE: value } });
    const first = await kernels.acquire('a', own('one'));
    const other = await kernels.acquire('b');
    await other.run('x = 1');
    await first.run('kept = 5');
    const again = await kernels.acquire('a', own('two'));
    expect((await again.run("import os; [os.environ['MODE'], kept]")).value).toEqual(['two', 5]);
    expect((await other.run('x')).value).toBe(1);
    const folder = await scratchFolder();
    const moved = await kernels.acquire('a', { cwd: folder });
    expect((await moved.run('import os; os.getcwd()')).value).toBe(folder);
  });

  test('hibernates an idle kernel, and resumes it at its next call', async () => {
    const kernels = await pool({ idleMs: 20 });
    const session = await kernels.acquire('sleepy');
    await session.run('x = 7');
    kernels.release('sleepy');
    await eventually(
      () => session.pid,
      (pid) => pid === 0,
      10_000,
    );
    const resumed = await session.run('x');
    expect(resumed).toMatchObject({ value: 7, resumed: { restored: ['x'] } });
  });

  test('has spares for new keys, without anything of another key', async () => {
    const kernels = await pool({ minSpares: 1 });
    const first = await kernels.acquire('first');
    await first.run("secret = 'hush'; open('note', 'w').write('mine')");
    await eventually(
      () => first.spares,
      (count) => count === 1,
      10_000,
    );
    expect((await kernels.metrics()).spare).toBe(1);
    const second = await kernels.acquire('second');
    expect((await second.run("import os; ['secret' in globals(), os.listdir()]")).value).toEqual([false, []]);
  });

  test('counts recovered kernels', async () => {
    const kernels = await pool();
    const session = await kernels.acquire('fragile');
    await session.run('x = 1');
    await session.save();
    await session.run('import os; os._exit(1)');
    expect((await session.run('x')).value).toBe(1);
    expect((await kernels.metrics()).recoveries).toBe(1);
  });

  test('closes one key or all, and saves them', async () => {
    const kernels = await pool();
    await (await kernels.acquire('a')).run('x = 1');
    await (await kernels.acquire('b')).run('x = 2');
    await kernels.shutdown('a');
    expect((await (await kernels.acquire('a')).run('x')).value).toBe(1);
    await kernels.shutdown();
    await expect(kernels.acquire('a')).rejects.toMatchObject({ code: 'SESSION_CLOSED' });
  });

  test('refuses unknown options', () => {
    expect(() => new KernelPool({ maxKernels: 0 })).toThrow(expect.objectContaining({ code: 'INVALID_OPTIONS' }));
  });
});

/** Resolves when so many have had to wait. */
async function queueOf(kernels: KernelPool, waits: number): Promise<void> {
  for (;;) {
    if ((await kernels.metrics()).waits === waits) return;
    await setImmediate();
  }
}

describe('a caller who waits', () => {
  /** A pool of one kernel, which is at work until the test says so. */
  async function occupied(options: PoolOptions = {}) {
    const kernels = await pool({ maxKernels: 1, ...options });
    const busy = await kernels.acquire('busy');
    const answered = Promise.withResolvers<string>();
    const asked = Promise.withResolvers<void>();
    const onInput = () => {
      asked.resolve();
      return answered.promise;
    };
    const running = busy.run('input()', { onInput });
    await asked.promise;
    const finish = async () => {
      answered.resolve('done');
      expect((await running).value).toBe('done');
    };
    onTestFinished(finish);
    return { kernels, finish };
  }

  test('can choose how long', async () => {
    const { kernels, finish } = await occupied({ waitMs: 60_000 });
    await expect(kernels.acquire('hasty', {}, { waitMs: 10 })).rejects.toMatchObject({
      code: 'POOL_EXHAUSTED',
      details: { maxKernels: 1, waitMs: 10 },
    });
    await expect(kernels.acquire('now or never', {}, { waitMs: 0 })).rejects.toMatchObject({ code: 'POOL_EXHAUSTED' });
    const patient = kernels.acquire('patient');
    await finish();
    expect((await (await patient).run('1 + 1')).value).toBe(2);
  });

  test('does not wait if there is room, however short its deadline', async () => {
    const kernels = await pool({ maxKernels: 1, waitMs: 0 });
    expect((await (await kernels.acquire('first', {}, { waitMs: 0 })).run('6 * 7')).value).toBe(42);
  });

  test('can stop waiting, before and while it waits', async () => {
    const { kernels } = await occupied();
    const aborted = { signal: AbortSignal.abort() };
    await expect(kernels.acquire('late', {}, aborted)).rejects.toMatchObject({ code: 'ABORTED' });
    const abort = new AbortController();
    const waiting = kernels.acquire('later', {}, { signal: abort.signal });
    await queueOf(kernels, 1);
    abort.abort();
    await expect(waiting).rejects.toMatchObject({ code: 'ABORTED' });
  });

  test('leaves the queue when it gives up, and the others move up', async () => {
    const { kernels, finish } = await occupied();
    const abort = new AbortController();
    const first = kernels.acquire('first', {}, { signal: abort.signal });
    await queueOf(kernels, 1);
    const second = kernels.acquire('second');
    await queueOf(kernels, 2);
    abort.abort();
    await expect(first).rejects.toMatchObject({ code: 'ABORTED' });
    // Asks again, behind the other one, and finds its key free.
    const again = kernels.acquire('first');
    await queueOf(kernels, 3);
    const order: string[] = [];
    const done = Promise.all([second.then(() => order.push('second')), again.then(() => order.push('first'))]);
    await finish();
    await done;
    expect(order).toEqual(['second', 'first']);
    expect((await kernels.metrics()).live).toBe(1);
  });

  test('for the same key as others gives up without affecting them', async () => {
    const { kernels, finish } = await occupied();
    const abort = new AbortController();
    const patient = kernels.acquire('shared');
    const nervous = kernels.acquire('shared', {}, { signal: abort.signal });
    const hasty = kernels.acquire('shared', {}, { waitMs: 1 });
    await expect(hasty).rejects.toMatchObject({ code: 'POOL_EXHAUSTED' });
    abort.abort();
    await expect(nervous).rejects.toMatchObject({ code: 'ABORTED' });
    await finish();
    expect((await (await patient).run('1')).value).toBe(1);
  });

  test('gets an error at once when the pool is shut down', async () => {
    const { kernels, finish } = await occupied({ waitMs: 600_000 });
    const waiting = kernels.acquire('waiting');
    await queueOf(kernels, 1);
    const refused = expect(waiting).rejects.toMatchObject({ code: 'SESSION_CLOSED' });
    await kernels.shutdown('waiting');
    await refused;
    await finish();
  });

  test('gets an error for an invalid deadline or signal', async () => {
    const kernels = await pool();
    for (const wait of [{ waitMs: -1 }, { waitMs: 0.5 }, { signal: {} }, { waiting: 1 }, null]) {
      const asked = kernels.acquire('a', {}, wait as unknown as AcquireOptions);
      await expect(asked).rejects.toMatchObject({ code: 'INVALID_OPTIONS' });
    }
  });

  test('gets the slot of a kernel that was being saved when it arrived', async () => {
    const kernels = await pool({ maxKernels: 1, waitMs: 15_000, session: { saveAfterMs: 600_000 } });
    const first = await kernels.acquire('first');
    // Where a thread runs, the kernel saves itself, and has no time for anything else.
    const slow = 'import threading, time\nthreading.Thread(target=time.sleep, args=(900,), daemon=True).start()\n';
    await first.run(
      `${slow}class Slow:\n  def __reduce__(self):\n    time.sleep(0.3)\n    return (int, ())\nx = Slow()`,
    );
    const saving = first.save();
    const second = kernels.acquire('second');
    await saving;
    expect((await (await second).run('3')).value).toBe(3);
  });

  test('does not wait for a kernel whose code prevents hibernation, if another one is idle', async () => {
    const kernels = await pool({ maxKernels: 2, waitMs: 20_000, session: { checkpointTimeoutMs: 12_000 } });
    const stubborn = await kernels.acquire('stubborn');
    const hang = 'class Hang:\n  def __reduce__(self):\n    while True: pass\nmany = [Hang() for _ in range(3)]';
    await stubborn.run(hang);
    const modest = await kernels.acquire('modest');
    await modest.run('x = 1');
    const third = await kernels.acquire('third');
    expect((await third.run('2')).value).toBe(2);
    expect(modest.pid).toBe(0);
  }, 60_000);
});

describe('a pool with unusual input', () => {
  test('reports an invalid key', async () => {
    const kernels = await pool();
    for (const key of [null, undefined, 5, {}, 'a\0b', 'x'.repeat(2000)] as string[]) {
      await expect(kernels.acquire(key)).rejects.toMatchObject({ code: 'INVALID_OPTIONS' });
      expect(() => kernels.release(key)).toThrow(expect.objectContaining({ code: 'INVALID_OPTIONS' }));
    }
    await expect(kernels.shutdown(null as unknown as string)).rejects.toMatchObject({ code: 'INVALID_OPTIONS' });
  });

  test('reports invalid options, and does not affect the kernel of that key', async () => {
    const kernels = await pool();
    const session = await kernels.acquire('a');
    await session.run('x = 1');
    const circle: Record<string, unknown> = {};
    circle.circle = circle;
    for (const own of [{ cwd: '/nonexistent' }, { limits: { memoryMb: 1n } }, circle] as SessionOptions[]) {
      await expect(kernels.acquire('a', own)).rejects.toMatchObject({ code: 'INVALID_OPTIONS' });
    }
    expect((await session.run('x')).value).toBe(1);
    expect(await kernels.acquire('a')).toBe(session);
  });

  test('does not restart a key for the same options in another order', async () => {
    const kernels = await pool();
    const session = await kernels.acquire('a', { env: { ONE: '1', TWO: '2' }, undo: 1 });
    expect(await kernels.acquire('a', { undo: 1, env: { TWO: '2', ONE: '1' } })).toBe(session);
  });
});
