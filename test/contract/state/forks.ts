/** Forks: another kernel with the same memory. Both go on, and neither knows of the other. */

import { execFileSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Session } from '../../../src/index.ts';
import { sharedEngineWithImage } from '../../support/docker/shared-docker.ts';
import { eventually } from '../../support/kernels/attack-code.ts';
import { type Open, runUntilReady, scratchFolder } from '../../support/kernels/session.ts';
import { evaluate, kernelPid, kill, residents } from '../../support/kernels/state.ts';
import { lacks } from '../../support/kernels/unsupported.ts';
import { isAlive } from '../../support/processes/processes.ts';

const NEVER = 3_600_000;

/** `short`: what differs from executor to executor. */
export function forkContract(open: Open, short = false): void {
  describe('a fork', () => {
    memory(open);
    if (short) return;
    lives(open);
    afterwards(open);
  });
}

function memory(open: Open): void {
  it('has everything in memory, and both continue independently', async () => {
    await using parent = await open();
    if (await lacks(parent, 'forks')) return;
    await parent.run('a = [1]\ng = iter(range(9)); next(g)\nimport json; json.mine = 7');
    await using child = await parent.fork({ agentKey: 'child' });
    expect(child.agentKey).toBe('child');
    expect(await evaluate(child, '[a, next(g), json.mine]')).toEqual([[1], 1, 7]);
    await child.run('a.append("child"); json.mine = 8; only = 1');
    await parent.run('a.append("parent")');
    expect(await evaluate(parent, '[a, next(g), json.mine, "only" in dir()]')).toEqual([[1, 'parent'], 1, 7, false]);
    expect(await evaluate(child, 'a')).toEqual([1, 'child']);
    expect(await kernelPid(child)).not.toBe(await kernelPid(parent));
  });

  it('works in the same folder, and in the same sandbox', async () => {
    await using parent = await open();
    if (await lacks(parent, 'forks')) return;
    await parent.run('import os\nos.mkdir("sub"); os.chdir("sub")\nopen("/tmp/shared", "w").close()');
    await using child = await parent.fork({ agentKey: 'child' });
    expect(child.cwd).toBe(parent.cwd);
    expect(child.pid).toBe(parent.pid);
    await child.run('open("note", "w").write("from the child")');
    expect(await evaluate(parent, 'open("note").read()')).toBe('from the child');
    expect(await evaluate(child, '[os.path.exists("/tmp/shared"), os.getcwd().endswith("sub")]')).toEqual([true, true]);
  });

  it('has its own output, input() and event loop', async () => {
    await using parent = await open();
    if (await lacks(parent, 'forks')) return;
    await parent.run('import asyncio\nawait asyncio.sleep(0)\nprint("once")');
    await using child = await parent.fork({ agentKey: 'child' });
    const ask = async (session: Session, word: string) => {
      const onInput = async () => word;
      const code = 'print("out"); answer = input(); await asyncio.sleep(0.005); print(answer); answer';
      return await session.run(code, { onInput });
    };
    const [one, two] = await Promise.all([ask(parent, 'parent'), ask(child, 'child')]);
    expect(one).toMatchObject({ value: 'parent', stdout: 'out\nparent\n' });
    expect(two).toMatchObject({ value: 'child', stdout: 'out\nchild\n' });
  });

  it('has its own random numbers', async () => {
    await using parent = await open();
    if (await lacks(parent, 'forks')) return;
    await parent.run('import numpy, random, uuid, os');
    await using one = await parent.fork({ agentKey: 'one' });
    await using two = await parent.fork({ agentKey: 'two' });
    const code = '[random.random(), float(numpy.random.rand()), str(uuid.uuid4()), os.urandom(8).hex()]';
    const drawn = await Promise.all([parent, one, two].map((session) => evaluate(session, code)));
    expect(new Set(drawn.flat()).size).toBe(12);
  });

  it('can be created twenty times from one kernel', async () => {
    // No save of any of them is among the processes that are counted.
    await using parent = await open({ saveAfterMs: NEVER });
    if (await lacks(parent, 'forks')) return;
    await parent.run('n = -1; block = bytes(1 << 20)');
    const children: Session[] = [];
    try {
      for (let n = 0; n < 20; n++) children.push(await parent.fork({ agentKey: `child ${n}` }));
      await Promise.all(children.map((child, n) => child.run(`n = ${n}`)));
      const seen = await Promise.all(children.map((child) => evaluate(child, '[n, len(block)]')));
      expect(seen).toEqual(Array.from({ length: 20 }, (_, n) => [n, 1 << 20]));
      expect(await evaluate(parent, 'n')).toBe(-1);
      expect(residents(parent)).toHaveLength(21);
    } finally {
      await Promise.all(children.map((child) => child.close()));
    }
    await eventually(
      () => residents(parent).length,
      (count) => count === 1,
      5000,
    );
    expect(await evaluate(parent, 'n')).toBe(-1);
  });

  it('can be created many at a time', async () => {
    await using parent = await open();
    if (await lacks(parent, 'forks')) return;
    await parent.run('x = 1');
    const made = Array.from({ length: 6 }, (_, n) => parent.fork({ agentKey: `child ${n}` }));
    const children = await Promise.all(made);
    await Promise.all(children.map((child, n) => child.run(`x += ${n}`)));
    expect(await Promise.all(children.map((child) => evaluate(child, 'x')))).toEqual([1, 2, 3, 4, 5, 6]);
    await Promise.all(children.map((child) => child.close()));
  });

  it('can be forked again', async () => {
    await using parent = await open();
    if (await lacks(parent, 'forks')) return;
    await parent.run('path = ["parent"]');
    await using child = await parent.fork({ agentKey: 'child' });
    await child.run('path.append("child")');
    await using grandchild = await child.fork({ agentKey: 'grandchild' });
    await grandchild.run('path.append("grandchild")');
    expect(await evaluate(grandchild, 'path')).toEqual(['parent', 'child', 'grandchild']);
    expect(await evaluate(child, 'path')).toEqual(['parent', 'child']);
    expect(await evaluate(parent, 'path')).toEqual(['parent']);
    expect(grandchild.cwd).toBe(parent.cwd);
  });

  it('can start from a checkpoint, which stays', async () => {
    await using parent = await open();
    if (await lacks(parent, 'forks')) return;
    await parent.run('x = 1');
    const { id } = await parent.checkpoint({ name: 'base' });
    await parent.run('x = 2');
    await using one = await parent.fork({ agentKey: 'one', from: 'base' });
    await one.run('x += 10');
    await using two = await parent.fork({ agentKey: 'two', from: id });
    expect(await evaluate(two, 'x')).toBe(1);
    expect(await evaluate(one, 'x')).toBe(11);
    expect(await evaluate(parent, 'x')).toBe(2);
    await parent.restore('base');
    expect(await evaluate(parent, 'x')).toBe(1);
  });

  it('has its own checkpoints and transactions', async () => {
    await using parent = await open();
    if (await lacks(parent, 'forks')) return;
    await parent.run('x = 1');
    await parent.checkpoint({ name: 'base' });
    await using child = await parent.fork({ agentKey: 'child' });
    expect(await child.checkpoints()).toEqual([]);
    await expect(child.restore('base')).rejects.toMatchObject({ code: 'CHECKPOINT_NOT_FOUND' });
    await child.run('x = 2');
    await child.checkpoint({ name: 'base' });
    await child.run('x = 3');
    await child.run('x = 4', { transaction: 'rollback_always' });
    expect(await evaluate(child, 'x')).toBe(3);
    await child.restore('base');
    await parent.restore('base');
    expect([await evaluate(parent, 'x'), await evaluate(child, 'x')]).toEqual([1, 2]);
    await parent.run('x = 5', { transaction: 'explicit' });
    expect(await evaluate(child, 'x')).toBe(2);
    await parent.rollback();
    expect(await evaluate(parent, 'x')).toBe(1);
  });
}

function lives(open: Open): void {
  it('stays alive when its parent is closed', async () => {
    const parent = await open();
    if (await lacks(parent, 'forks')) return;
    await parent.run('x = 1');
    await using child = await parent.fork({ agentKey: 'child' });
    await parent.close();
    const result = await child.run('x += 1; x');
    expect(result).toMatchObject({ status: 'ok', value: 2 });
    expect(result.recovered).toBeUndefined();
    expect(await child.run('x = 9', { transaction: 'rollback_always' })).toMatchObject({ transaction: 'rolled_back' });
    expect(await evaluate(child, 'x')).toBe(2);
  });

  it('that is closed does not affect its parent', async () => {
    await using parent = await open();
    if (await lacks(parent, 'forks')) return;
    await parent.run('x = 1');
    const child = await parent.fork({ agentKey: 'child' });
    await child.run('x = 2');
    await child.close();
    const result = await parent.run('x');
    expect(result).toMatchObject({ status: 'ok', value: 1 });
    expect(result.recovered).toBeUndefined();
  });

  it('leaves no process after the last kernel in its sandbox has closed', async () => {
    const parent = await open();
    if (await lacks(parent, 'forks')) return;
    await parent.run('x = 1');
    const child = await parent.fork({ agentKey: 'child' });
    const { pid } = parent;
    await parent.close();
    expect(isAlive(pid)).toBe(true);
    await child.close();
    await eventually(
      () => isAlive(pid),
      (alive) => !alive,
      5000,
    );
  });

  it.each([
    ['of the parent does not reach the fork', 0],
    ['of the fork does not reach the parent', 1],
  ])('an interrupt %s', async (_name, which) => {
    await using parent = await open();
    if (await lacks(parent, 'forks')) return;
    await parent.run('x = 1');
    await using child = await parent.fork({ agentKey: 'child' });
    const [victim, other] = which === 0 ? [parent, child] : [child, parent];
    const loop = 'print("ready", flush=True)\nwhile True: pass';
    const { result } = await runUntilReady(victim, loop);
    const released = Promise.withResolvers<string>();
    const waiting = await runUntilReady(other, 'print("ready", flush=True)\nx = 2\ninput()', {
      onInput: () => released.promise,
    });
    expect(await victim.interrupt()).toBe(true);
    expect((await result).status).toBe('interrupted');
    released.resolve('untouched');
    expect(await waiting.result).toMatchObject({ status: 'ok', value: 'untouched' });
    expect([await evaluate(victim, 'x'), await evaluate(other, 'x')]).toEqual([1, 2]);
  });

  it.each([
    ['of the parent does not touch the fork', 0],
    ['of the fork does not touch the parent', 1],
  ])('the death %s', async (_name, which) => {
    await using parent = await open();
    if (await lacks(parent, 'forks')) return;
    await parent.run('x = 1');
    await using child = await parent.fork({ agentKey: 'child' });
    await parent.save();
    await child.save();
    const [victim, other] = which === 0 ? [parent, child] : [child, parent];
    const pid = await kernelPid(victim);
    const loop = 'print("ready", flush=True)\nwhile True: pass';
    const dying = await runUntilReady(victim, loop);
    const living = await runUntilReady(other, loop);
    kill(pid);
    expect(await dying.result).toMatchObject({ status: 'died', death: { signal: 'SIGKILL' } });
    await other.interrupt();
    expect(await living.result).toMatchObject({ status: 'interrupted' });
    expect(await other.run('x')).toMatchObject({ value: 1 });
    expect(await victim.run('x')).toMatchObject({ value: 1, recovered: { cause: { signal: 'SIGKILL' } } });
  });

  it.each(['reset', 'restart', 'hibernate'] as const)('%s() of one does not affect the other', async (end) => {
    await using parent = await open();
    if (await lacks(parent, 'forks')) return;
    await parent.run('x = 1');
    await using child = await parent.fork({ agentKey: 'child' });
    await parent[end]();
    const result = await child.run('x += 1; x');
    expect(result).toMatchObject({ status: 'ok', value: 2 });
    expect(result.recovered ?? result.resumed).toBeUndefined();
    await child[end]();
    expect(await evaluate(parent, '"x" in dir()')).toBe(end === 'hibernate');
    expect(await evaluate(child, '"x" in dir()')).toBe(end === 'hibernate');
  });

  it('of a kernel that died at once gets nothing that its key had before', async () => {
    const dataDir = await scratchFolder();
    {
      await using earlier = await open({ dataDir, agentKey: 'child' });
      if (await lacks(earlier, 'forks')) return;
      await earlier.run('of_an_earlier_life = 1');
    }
    await using parent = await open({ dataDir, agentKey: 'parent', saveAfterMs: 3_600_000 });
    await parent.run('x = 1');
    await using child = await parent.fork({ agentKey: 'child' });
    kill(await kernelPid(child));
    let result = await child.run('sorted(name for name in dir() if name[0] != "_")');
    if (result.status === 'died') result = await child.run('sorted(name for name in dir() if name[0] != "_")');
    expect(result.recovered).toBeDefined();
    expect(result.value).not.toContain('of_an_earlier_life');
  });

  it('whose key is in use is KEY_BUSY, and the parent continues', async () => {
    const dataDir = await scratchFolder();
    await using parent = await open({ dataDir, agentKey: 'parent' });
    if (await lacks(parent, 'forks')) return;
    await using _other = await open({ dataDir, agentKey: 'other' });
    await parent.run('x = 1');
    const busy = { code: 'KEY_BUSY', details: { pid: process.pid, since: expect.any(Number) } };
    await expect(parent.fork({ agentKey: 'other' })).rejects.toMatchObject(busy);
    await expect(parent.fork({ agentKey: 'parent' })).rejects.toMatchObject(busy);
    expect(await evaluate(parent, 'x')).toBe(1);
    expect(residents(parent)).toHaveLength(1);
  });
}

function afterwards(open: Open): void {
  it('that was closed opens again under its own key, with its variables, in the same folder', async () => {
    const dataDir = await scratchFolder();
    await using parent = await open({ dataDir, agentKey: 'parent' });
    if (await lacks(parent, 'forks')) return;
    await parent.run('x = 1\nopen("note", "w").write("kept")');
    const child = await parent.fork({ agentKey: 'child' });
    await child.run('x = 2; y = [x]');
    const { cwd } = child;
    await child.close();
    await using again = await open({ dataDir, agentKey: 'child' });
    expect(again.cwd).toBe(cwd);
    expect(again.cwd).toBe(parent.cwd);
    expect(await again.run('[x, y, open("note").read()]')).toMatchObject({
      value: [2, [2], 'kept'],
      resumed: { restored: expect.arrayContaining(['x', 'y']) },
    });
    expect(await evaluate(parent, 'x')).toBe(1);
  });

  it('keeps the folder after its parent is gone', async () => {
    const dataDir = await scratchFolder();
    const parent = await open({ dataDir, agentKey: 'parent' });
    if (await lacks(parent, 'forks')) return;
    await parent.run('open("note", "w").write("kept")');
    const child = await parent.fork({ agentKey: 'child' });
    await child.run('x = 2');
    await parent.close();
    await child.close();
    await using again = await open({ dataDir, agentKey: 'child' });
    expect(await evaluate(again, '[x, open("note").read()]')).toEqual([2, 'kept']);
  });

  it.each([true, false])(
    'keeps its files when its parent is destroyed, until it is destroyed too (persist: %s)',
    async (persist) => {
      const dataDir = await scratchFolder();
      const folders = () => readdirSync(join(dataDir, 'agents')).filter((name) => !name.startsWith('.new-'));
      const parent = await open({ dataDir, agentKey: 'parent', persist });
      if (await lacks(parent, 'forks')) return;
      await parent.run('open("note", "w").write("kept")');
      const child = await parent.fork({ agentKey: 'child' });
      const other = await child.fork({ agentKey: 'other' });
      await parent.destroy();
      expect(await evaluate(child, 'open("note").read()')).toBe('kept');
      await other.destroy();
      expect(await evaluate(child, 'open("note").read()')).toBe('kept');
      await child.destroy();
      expect(folders()).toEqual([]);
    },
  );

  it('keeps its files when its parent is destroyed, also in the next process, until it is destroyed there', async () => {
    const dataDir = await scratchFolder();
    const folders = () => readdirSync(join(dataDir, 'agents')).filter((name) => !name.startsWith('.new-'));
    const parent = await open({ dataDir, agentKey: 'parent' });
    if (await lacks(parent, 'forks')) return;
    await parent.run('open("note", "w").write("kept")');
    await (await parent.fork({ agentKey: 'child' })).close();
    await parent.close();
    // Another process, which knows nothing but what is in storage.
    const index = new URL('../../../src/index.ts', import.meta.url).href;
    const destroy = `
      const { Session, shutdown } = await import(${JSON.stringify(index)});
      const [key, options] = JSON.parse(process.argv[1]);
      await (await Session.open({ ...options, agentKey: key })).destroy();
      await shutdown();`;
    const { executor } = parent;
    const engine = executor === 'container' ? await sharedEngineWithImage() : undefined;
    const destroyElsewhere = (key: string) =>
      execFileSync(
        process.execPath,
        ['--input-type=module', '-e', destroy, JSON.stringify([key, { dataDir, executor, engine }])],
        {
          stdio: 'inherit',
        },
      );
    destroyElsewhere('parent');
    {
      await using child = await open({ dataDir, agentKey: 'child' });
      expect(await evaluate(child, 'open("note").read()')).toBe('kept');
    }
    destroyElsewhere('child');
    expect(folders()).toEqual([]);
  });

  it('of a parent that was not saved has the variables that existed', async () => {
    const dataDir = await scratchFolder();
    const parent = await open({ dataDir, agentKey: 'parent' });
    if (await lacks(parent, 'forks')) return;
    await parent.run('x = 1');
    const child = await parent.fork({ agentKey: 'child' });
    await child.close();
    await parent.close();
    await using again = await open({ dataDir, agentKey: 'child' });
    expect(await evaluate(again, 'x')).toBe(1);
  });

  it('saves its variables at the same time as its parent', async () => {
    await using parent = await open({ saveAfterMs: 3_600_000 });
    if (await lacks(parent, 'forks')) return;
    await parent.run('x = 0');
    const children: Session[] = [];
    for (let n = 1; n <= 4; n++) children.push(await parent.fork({ agentKey: `child ${n}` }));
    const all = [parent, ...children];
    for (let round = 0; round < 5; round++) {
      await Promise.all(all.map((session) => session.run('x += 1')));
      await Promise.all(all.map((session) => session.save()));
    }
    await Promise.all(children.map((child) => child.close()));
  });

  it('recovers independently after its kernel died', async () => {
    await using parent = await open();
    if (await lacks(parent, 'forks')) return;
    await parent.run('x = 1');
    await using child = await parent.fork({ agentKey: 'child' });
    await child.run('x = 2');
    await child.save();
    expect((await child.run('x = 3\nimport os; os._exit(1)')).status).toBe('died');
    expect(await child.run('x')).toMatchObject({ value: 2, recovered: { cause: { exitCode: 1 } } });
    expect(await evaluate(parent, 'x')).toBe(1);
  });
}
