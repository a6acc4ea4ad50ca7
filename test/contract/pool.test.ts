/** KernelPool: one kernel for each agent key, a ceiling on how many live, and nothing lost when one must sleep. */

import { describe, expect, onTestFinished, test } from 'vitest';
import { KernelPool, type PoolOptions, type SessionOptions } from '../../src/index.ts';
import { eventually } from '../support/attack.ts';
import { descendants, type Process, templatesOf } from '../support/processes.ts';
import { scratchFolder } from '../support/session.ts';

async function pool(options: PoolOptions = {}): Promise<KernelPool> {
  const dataDir = await scratchFolder();
  const made = new KernelPool({ ...options, session: { dataDir, ...options.session } });
  onTestFinished(() => made.shutdown());
  return made;
}

/** Sandboxes as the host sees them: children of the template, without the one that makes networks, and without those
 * that end and have let go of their memory, and with it of their command line. */
function sandboxes(): number {
  const [template] = templatesOf(process.pid);
  const own = ({ parent, command }: Process) => parent === template?.pid && command.includes('cella_kernel');
  const all = descendants(template?.pid ?? 0).filter(own);
  return Math.max(0, all.length - 1);
}

describe('a pool', () => {
  test('gives a key the same kernel again, and another key another', async () => {
    const kernels = await pool();
    const one = await kernels.acquire('one');
    await one.run('x = 1');
    kernels.release('one');
    expect(await kernels.acquire('one')).toBe(one);
    const two = await kernels.acquire('two');
    expect((await two.run("'x' in globals()")).value).toBe(false);
    expect(await kernels.metrics()).toMatchObject({ live: 2, hibernated: 0, hits: 1 });
  });

  test('makes one kernel for a key however many ask for it at once', async () => {
    const kernels = await pool();
    const before = sandboxes();
    const sessions = await Promise.all(Array.from({ length: 50 }, () => kernels.acquire('same')));
    expect(new Set(sessions).size).toBe(1);
    expect(sandboxes() - before).toBe(1);
  });

  test('never has more kernels than it may, and finds every name again', async () => {
    const kernels = await pool({ maxKernels: 4 });
    const before = sandboxes();
    let most = 0;
    const watch = setInterval(() => {
      most = Math.max(most, sandboxes() - before);
    }, 5);
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
  }, 60_000);

  test('puts the longest idle kernel to sleep first', async () => {
    const kernels = await pool({ maxKernels: 2 });
    const [old, young] = [await kernels.acquire('old'), await kernels.acquire('young')];
    await old.run('x = 1');
    await young.run('x = 2');
    await (await kernels.acquire('third')).run('1');
    expect([old.pid > 0, young.pid > 0]).toEqual([false, true]);
    expect((await old.run('x')).value).toBe(1);
  });

  test('has a caller wait its turn while all are at work, then says so', async () => {
    const kernels = await pool({ maxKernels: 1, waitMs: 300 });
    const busy = await kernels.acquire('busy');
    const running = busy.run('input()', { onInput: () => answered.promise });
    const answered = Promise.withResolvers<string>();
    await expect(kernels.acquire('late')).rejects.toMatchObject({ code: 'POOL_EXHAUSTED' });
    const waiting = kernels.acquire('patient');
    answered.resolve('done');
    expect((await running).value).toBe('done');
    expect((await (await waiting).run('1 + 1')).value).toBe(2);
  });

  test('restarts a key alone when it comes with another environment or folder', async () => {
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

  test('puts a kernel to sleep when it was idle for long, and wakes it by its next call', async () => {
    const kernels = await pool({ idleTtlMs: 20 });
    const session = await kernels.acquire('sleepy');
    await session.run('x = 7');
    kernels.release('sleepy');
    await eventually(
      () => session.pid,
      (pid) => pid === 0,
      10_000,
    );
    const woken = await session.run('x');
    expect(woken).toMatchObject({ value: 7, woken: { restored: ['x'] } });
  });

  test('has kernels ready for keys that come for the first time, with nothing of another key in them', async () => {
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

  test('counts the kernels that it brought back', async () => {
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

  test('refuses options that it does not know', () => {
    expect(() => new KernelPool({ maxKernels: 0 })).toThrow(expect.objectContaining({ code: 'INVALID_OPTIONS' }));
  });
});
