/** What a session holds, and lets go of: its key, its processes, its saves and its folder. */

import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { describe, expect, onTestFinished, test } from 'vitest';
import { CellaError, KernelPool, Session } from '../../../src/index.ts';
import { eventually } from '../../support/kernels/attack-code.ts';
import { openSession, runUntilReady, scratchFolder } from '../../support/kernels/session.ts';
import { kernelPid, kill } from '../../support/kernels/state.ts';
import { descendants, isAlive } from '../../support/processes/processes.ts';

describe('a key', () => {
  test('is free again after a session could not be opened', async () => {
    const dataDir = await scratchFolder();
    await expect(openSession({ dataDir, cwd: '/no/such/folder' })).rejects.toMatchObject({ code: 'INVALID_OPTIONS' });
    expect((await (await openSession({ dataDir })).run('1')).value).toBe(1);
  });

  test('that is in use cannot be destroyed by a session without storage', async () => {
    const dataDir = await scratchFolder();
    const holder = await openSession({ dataDir });
    await holder.run("open('mine', 'w').write('kept')");
    const visitor = await Session.open({ dataDir, persist: false });
    await expect(visitor.destroy()).rejects.toMatchObject({ code: 'KEY_BUSY' });
    expect((await holder.run("open('mine').read()")).value).toBe('kept');
  });

  test('that is destroyed leaves no variables, files or history', async () => {
    const dataDir = await scratchFolder();
    const session = await openSession({ dataDir });
    await session.run("x = 1; open('mine', 'w').close()");
    await session.save();
    await session.destroy();
    const next = await openSession({ dataDir });
    expect((await next.run("import os; ['x' in globals(), os.listdir()]")).value).toEqual([false, []]);
    expect(await next.history()).toHaveLength(1);
  });
});

test('a session works in its given folder, even if the one before could not be opened', async () => {
  const [dataDir, cwd] = [await scratchFolder(), await scratchFolder()];
  const first = await openSession({ dataDir });
  await first.run('x = 1');
  await first.close();
  await expect(openSession({ dataDir, cwd, preload: ['no_such_module'] })).rejects.toMatchObject({
    code: 'INVALID_OPTIONS',
  });
  const second = await openSession({ dataDir, cwd });
  expect((await second.run('import os; [x, os.getcwd()]')).value).toEqual([1, cwd]);
});

describe('a save', () => {
  test('of a kernel that sends more than the limit is refused, and the kernel is killed', async () => {
    const session = await openSession({ checkpointLimitMb: 1 });
    await session.run(`
import json, struct, sys
def hostile(send, *_):
    head = json.dumps({'kind': 'pickle', 'names': ['x'], 'portable': True, 'last': False}).encode()
    for _ in range(100):
        send(ord('v'), struct.pack('<I', len(head)) + head + bytes(1 << 20))
sys.modules['cella_kernel.kernel.checkpoint_io'].save = hostile`);
    await expect(session.checkpoint({ durable: true })).rejects.toMatchObject({ code: 'KERNEL_PROTOCOL' });
    expect((await session.checkpoints()).filter(({ kind }) => kind === 'durable')).toEqual([]);
    expect((await session.run('1')).value).toBe(1);
  });

  test('that fails at the end is reported, and no process stays', async () => {
    const dataDir = await scratchFolder();
    const session = await Session.open({ dataDir });
    await session.run('x = 1');
    const { pid } = session;
    await rm(join(dataDir, 'checkpoints'), { recursive: true });
    await writeFile(join(dataDir, 'checkpoints'), 'not a folder');
    await expect(session.close()).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
    await eventually(
      () => isAlive(pid),
      (alive) => !alive,
      10_000,
    );
  });

  test('from before a reset does not come back after a crash', async () => {
    const session = await openSession();
    await session.run('x = 1');
    await session.save();
    await session.reset();
    await session.run('import os; os._exit(1)');
    const result = await session.run("'x' in globals()");
    expect(result).toMatchObject({ value: false, recovered: { restored: [] } });
  });

  test('that a session without storage would need for hibernation is refused', async () => {
    const session = await openSession({ persist: false });
    await session.run('x = 1');
    await expect(session.hibernate()).rejects.toMatchObject({ code: 'INVALID_OPTIONS' });
    expect((await session.run('x')).value).toBe(1);
  });
});

describe('a fork', () => {
  test('keeps its variables when its parent is destroyed', async () => {
    const dataDir = await scratchFolder();
    const parent = await openSession({ dataDir, agentKey: 'parent' });
    await parent.run('x = 41');
    const fork = await parent.fork({ agentKey: 'child' });
    await fork.run('x += 1');
    await fork.close();
    await parent.destroy();
    const again = await openSession({ dataDir, agentKey: 'child' });
    expect((await again.run('x')).value).toBe(42);
  });

  test('without its own key is refused: it would replace the default agent key', async () => {
    const dataDir = await scratchFolder();
    await using owner = await openSession({ dataDir });
    await owner.run('precious = 1');
    await owner.close();
    const session = await openSession({ dataDir, agentKey: 'forgetful' });
    for (const options of [undefined, {}, { agentKey: ' ' }, { agentKey: 5 }, { agentKey: 'x', form: 'y' }]) {
      const forking = session.fork(options as unknown as { agentKey: string });
      await expect(forking).rejects.toMatchObject({ code: 'INVALID_OPTIONS' });
    }
    const again = await openSession({ dataDir });
    expect((await again.run('precious')).value).toBe(1);
  });

  test('over the limit of a pool leaves no kernel behind', async () => {
    const dataDir = await scratchFolder();
    const pool = new KernelPool({ maxKernels: 1, waitMs: 100, session: { dataDir } });
    onTestFinished(() => pool.shutdown());
    const session = await pool.acquire('only');
    await session.run('x = 1');
    await expect(session.fork({ agentKey: 'other' })).rejects.toMatchObject({ code: 'POOL_EXHAUSTED' });
    expect(descendants(session.pid)).toHaveLength(1);
  });
});

describe('a kernel that was just killed', () => {
  test.each([
    ['undo', { undo: 2 }, {}],
    ['a transaction', {}, { transaction: 'rollback_on_failure' }],
  ] as const)('is recovered before a cell with %s, which runs once', async (_name, options, how) => {
    const session = await openSession(options);
    await session.run('x = 1');
    await session.save();
    const victim = await kernelPid(session);
    // Nobody has had time to see it die.
    kill(victim);
    expect(await session.run('x += 1; x', how)).toMatchObject({
      status: 'ok',
      value: 2,
      recovered: { restored: ['x'] },
    });
    expect((await session.run('x', how)).value).toBe(2);
  });
});

test('a durable checkpoint of a kernel that was just killed fails with that death, whenever it is noticed', async () => {
  const session = await openSession({ saveAfterMs: 3_600_000 });
  for (let round = 0; round < 6; round++) {
    await session.run('x = 1');
    kill(await kernelPid(session));
    for (let turn = 0; turn < round; turn++) await setImmediate();
    const made = session.checkpoint({ name: 'late', durable: true });
    // It may have been brought back already.
    const told = await made.then(
      () => 'KERNEL_DIED',
      (error: CellaError) => error.code,
    );
    expect(told).toBe('KERNEL_DIED');
  }
});

describe.each(['reset', 'restart'] as const)('%s() in the middle of', (end) => {
  const works: [name: string, begin: (session: Session) => Promise<unknown>][] = [
    ['a fork', async (session) => await (await session.fork({ agentKey: 'fork' })).close()],
    ['a live checkpoint', (session) => session.checkpoint({ name: 'another' })],
    ['a durable checkpoint', (session) => session.checkpoint({ name: 'another', durable: true })],
    ['going back', (session) => session.restore('live')],
    ['loading a checkpoint', (session) => session.restore('durable')],
    ['going to sleep', (session) => session.hibernate()],
    ['waking up', async (session) => [await session.hibernate(), await session.variables()]],
    ['a save', (session) => session.save()],
    ['a transaction', (session) => session.run('while True: pass', { transaction: 'rollback_always', timeoutMs: 300 })],
    ['another one', (session) => Promise.all([session.reset(), session.restart()])],
  ];
  test.each(works)('%s ends it or waits for it, and leaves a kernel without variables', async (_name, begin) => {
    const session = await openSession({ undo: 1, saveAfterMs: 0 });
    await session.run('x = 1');
    await session.checkpoint({ name: 'live' });
    await session.checkpoint({ name: 'durable', durable: true });
    await session.run('x = 2');
    for (const turns of [0, 1, 5]) {
      const work = begin(session).then(
        () => 'done',
        (error: unknown) => (error instanceof CellaError ? 'told' : error),
      );
      for (let turn = 0; turn < turns; turn++) await setImmediate();
      await session[end]();
      expect(['done', 'told']).toContain(await work);
      expect((await session.run('6 * 7')).value).toBe(42);
    }
  });
});

describe('a session that is closed', () => {
  test.each([0, 1, 2, 4, 8])(
    'runs no cell that has not begun (%i turns of the loop after it was requested)',
    async (turns) => {
      const session = await openSession({ undo: 5 });
      await session.run('1');
      // Before such a cell a moment to go back to is kept, in which the kernel ends.
      const ran = session.run('while True: pass').then(
        ({ status }) => status,
        (error: CellaError) => error.code,
      );
      for (let turn = 0; turn < turns; turn++) await setImmediate();
      await session.close();
      expect(['SESSION_CLOSED', 'KERNEL_DIED', 'died']).toContain(await ran);
    },
  );
});

describe('a cell that waits behind a reset', () => {
  test('runs after it, in the next kernel', async () => {
    const session = await openSession();
    const { result } = await runUntilReady(session, 'print("ready")\nwhile True: pass');
    const waits = session.run('"x" in dir()');
    await session.reset();
    expect((await result).status).toBe('died');
    expect(await waits).toMatchObject({ status: 'ok', value: false });
  });
});

describe('restoring', () => {
  test('checks the options of a checkpoint first: a typing error creates none', async () => {
    const session = await openSession();
    for (const options of [
      null,
      { name: 5 },
      { name: ' ' },
      { name: '\ud800' },
      { nam: 'typing error' },
      { durable: 1 },
    ]) {
      const asked = session.checkpoint(options as unknown as { name: string });
      await expect(asked).rejects.toMatchObject({ code: 'INVALID_OPTIONS' });
    }
    expect(await session.checkpoints()).toEqual([]);
  });

  test('by undo from an open transaction undoes only that cell', async () => {
    const session = await openSession({ undo: 3 });
    await session.run('x = 1');
    await session.run('x = 2');
    await session.run('x = 3', { transaction: 'explicit' });
    await session.undo();
    expect((await session.run('x')).value).toBe(2);
  });

  test('a durable checkpoint is deleted before a live one with the same name that is gone', async () => {
    const session = await openSession({ liveCheckpoints: 1 });
    await session.run('x = 1');
    await session.checkpoint({ name: 'same' });
    await session.checkpoint({ name: 'other' });
    await session.checkpoint({ name: 'same', durable: true });
    await session.deleteCheckpoint('same');
    expect((await session.checkpoints()).map(({ name, kind, gone }) => [name, kind, gone !== undefined])).toEqual([
      ['same', 'live', true],
      ['other', 'live', false],
    ]);
  });
});

describe('a pool', () => {
  test('opens a key again after its session was closed', async () => {
    const pool = new KernelPool({ session: { dataDir: await scratchFolder() } });
    onTestFinished(() => pool.shutdown());
    const session = await pool.acquire('a');
    await session.run('x = 1');
    await session.close();
    expect((await (await pool.acquire('a')).run('x')).value).toBe(1);
  });

  test('accepts an empty name as the default key', async () => {
    const pool = new KernelPool({ session: { dataDir: await scratchFolder() } });
    onTestFinished(() => pool.shutdown());
    expect(await pool.acquire('')).toBe(await pool.acquire('default'));
  });
});

test('a moved data folder works the same for its agent keys, including their working folder', async () => {
  const [before, after] = [await scratchFolder(), await scratchFolder()];
  const first = await openSession({ dataDir: join(before, 'data') });
  await first.run("import os; os.mkdir('inner'); os.chdir('inner'); x = 1");
  await first.close();
  await mkdir(join(after, 'place'));
  await rename(join(before, 'data'), join(after, 'place', 'data'));
  const second = await openSession({ dataDir: join(after, 'place', 'data') });
  expect((await second.run('[x, os.path.basename(os.getcwd())]')).value).toEqual([1, 'inner']);
});
