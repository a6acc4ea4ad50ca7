/** Automatic saves, recovery, hibernation and the lock on a key: what a kernel had comes back, and the next result says so. */

import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { ResultEvent, Session } from '../../src/index.ts';
import { eventually } from '../support/attack.ts';
import { everything } from '../support/depth.ts';
import { lacks, lacksFor } from '../support/lacks.ts';
import { isAlive, templateAbove } from '../support/processes.ts';
import { type Open, runUntilReady, scratchFolder } from '../support/session.ts';
import {
  checkpointFolder,
  evaluate,
  kernelPid,
  kill,
  locate,
  reasons,
  residents,
  storedCheckpoints,
} from '../support/state.ts';
import { RemoteHost } from '../support/state-hosts.ts';

const root = process.getuid?.() === 0;
const NEVER = 3_600_000;

/** `templated`: its kernels come from templates, which can die too, and start so fast that a rare moment can be tried often. */
/** `short`: what differs from executor to executor. */
export function recoveryContract(open: Open, templated: boolean, short = false): void {
  describe('recovery', () => {
    deaths(open, templated);
    if (templated) deathOfTheTemplate(open);
    if (short) return;
    notices(open);
    crashLoop(open);
  });
  if (short) return;
  describe('automatic saves', () => saves(open, templated));
  describe('hibernation', () => hibernation(open));
  describe('an agent key', () => locks(open));
}

/** The next result of a session whose kernel was killed while it was idle: a cell that comes too early shares the death. */
async function next(session: Session, code: string): Promise<ResultEvent> {
  const result = await session.run(code);
  return result.status === 'died' ? await session.run(code) : result;
}

/** Kills a process while nothing runs. With pid 1 or the template the sandbox ends a moment later: it is waited for. */
async function killIdle(session: Session, victim: number): Promise<void> {
  const inside = residents(session).includes(victim);
  kill(victim);
  await eventually(
    () => (inside ? isAlive(victim) : session.pid !== 0),
    (lives) => !lives,
    5000,
  );
}

function deathOfTheTemplate(open: Open): void {
  it('of several sessions whose template was killed brings back each its own', async () => {
    const dataDir = await scratchFolder();
    const sessions = await Promise.all([1, 2, 3].map((n) => open({ dataDir, agentKey: `agent ${n}` })));
    await Promise.all(sessions.map((session, n) => session.run(`x = ${n}`)));
    await Promise.all(sessions.map((session) => session.save()));
    kill(templateAbove(sessions[0]?.pid ?? 0));
    await eventually(
      () => sessions.map(({ pid }) => pid),
      (pids) => pids.every((pid) => pid === 0),
      5000,
    );
    const results = await Promise.all(sessions.map((session) => next(session, 'x')));
    expect(results.map(({ value, recovered }) => [value, recovered?.restored])).toEqual([
      [0, ['x']],
      [1, ['x']],
      [2, ['x']],
    ]);
  });
}

function deaths(open: Open, templated: boolean): void {
  const byCode: [name: string, code: string, cause: object][] = [
    ['os._exit', 'import os; os._exit(7)', { code: 'KERNEL_DIED', exitCode: 7 }],
    ['SIGKILL', 'import os; os.kill(os.getpid(), 9)', { code: 'KERNEL_DIED', signal: 'SIGKILL' }],
    ['a segmentation fault', 'import ctypes; ctypes.string_at(0)', { code: 'KERNEL_DIED', signal: 'SIGSEGV' }],
    ['abort', 'import os; os.abort()', { code: 'KERNEL_DIED', signal: 'SIGABRT' }],
    [
      'a broken protocol',
      'import os; os.write(256, b"\\xff" * 64); __import__("signal").pause()',
      { code: 'KERNEL_PROTOCOL' },
    ],
    ...(root
      ? ([
          [
            'running out of memory',
            'import mmap\nm = mmap.mmap(-1, 2 << 30)\nfor at in range(0, len(m), 4096): m[at] = 1',
            { code: 'KERNEL_OUT_OF_MEMORY' },
          ],
        ] as [string, string, object][])
      : []),
  ];
  it.each(byCode)('after %s brings the last save back, and the cell is not run again', async (name, code, cause) => {
    await using session = await open({ saveAfterMs: NEVER, limits: { memoryMb: 256 } });
    if (await lacksFor(session, code)) return;
    await session.run('x = [1]\ndef f(): return x\nlive = open("live", "w")');
    await session.save();
    await session.run('x.append(2); unsaved = 1');
    const died = await session.run(`open("log", "a").write("ran\\n")\n${code}`);
    if (name === 'running out of memory' && !session.capabilities.subprocesses) {
      // The limit is one of the interpreter's own memory, and an error in the code.
      expect(died).toMatchObject({
        status: 'error',
        error: { name: expect.stringMatching(/MemoryError|OverflowError/) },
      });
      return;
    }
    expect(died).toMatchObject({ status: 'died', death: cause });
    const result = await session.run('[f(), "unsaved" in dir(), open("log").read()]');
    expect(result).toMatchObject({ status: 'ok', value: [[1], false, 'ran\n'], recovered: { cause } });
    const { recovered } = result;
    expect([...(recovered?.restored ?? [])].sort()).toEqual(['f', 'x']);
    expect(reasons(recovered?.lost).live).toContain('file');
    expect(recovered?.savedAgoMs).toBeGreaterThanOrEqual(0);
    expect(recovered?.savedAgoMs).toBeLessThan(30_000);
    // Told once.
    expect((await session.run('f()')).recovered).toBeUndefined();
  });

  const victims: [name: string, find: (session: Session) => Promise<number>, cause: object][] = [
    ['the kernel', kernelPid, { code: 'KERNEL_DIED', signal: 'SIGKILL' }],
    ['pid 1 of its sandbox', async ({ pid }) => pid, { code: 'KERNEL_DIED' }],
  ];
  if (templated) {
    victims.push(['the template', async ({ pid }) => templateAbove(pid), { code: 'KERNEL_DIED' }]);
  }
  it.each(victims)('after %s was killed in the middle of a cell brings the last save back', async (...row) => {
    const [, find, cause] = row;
    await using session = await open({ saveAfterMs: NEVER });
    if (await lacks(session, 'subprocesses')) return;
    await session.run('x = 1');
    await session.save();
    const victim = await find(session);
    const code = 'open("log", "a").write("ran\\n")\nx = 2\nprint("ready", flush=True)\nwhile True: pass';
    const { result } = await runUntilReady(session, code);
    kill(victim);
    expect(await result).toMatchObject({ status: 'died', stdout: 'ready\n', death: cause });
    expect(await session.run('[x, open("log").read()]')).toMatchObject({
      status: 'ok',
      value: [1, 'ran\n'],
      recovered: { cause, restored: ['x'], lost: [], savedAgoMs: expect.any(Number) },
    });
  });

  it.each(victims)('after %s was killed between two cells brings the last save back', async (_name, find, cause) => {
    await using session = await open({ saveAfterMs: NEVER });
    if (await lacks(session, 'subprocesses')) return;
    await session.run('x = 1');
    await session.save();
    await session.run('x = 2');
    await killIdle(session, await find(session));
    expect(await next(session, 'x')).toMatchObject({ status: 'ok', value: 1, recovered: { cause, restored: ['x'] } });
    expect(await session.run('x += 1; x')).toMatchObject({ status: 'ok', value: 2 });
  });

  it('loses live checkpoints with their sandbox, and never takes one for another', async () => {
    await using session = await open({ saveAfterMs: NEVER });
    if (await lacks(session, 'subprocesses')) return;
    await session.run('x = 1');
    await session.checkpoint({ name: 'old' });
    await session.save();
    await killIdle(session, session.pid);
    await expect(session.restore('old')).rejects.toMatchObject({ code: 'CHECKPOINT_GONE' });
    expect(await next(session, 'x')).toMatchObject({ value: 1, recovered: {} });
    await session.run('x = 2');
    await session.checkpoint({ name: 'young' });
    await expect(session.restore('old')).rejects.toMatchObject({ code: 'CHECKPOINT_GONE' });
    expect(await evaluate(session, 'x')).toBe(2);
  });

  it('from an explicit transaction whose sandbox has ended is from the last save', async () => {
    await using session = await open({ saveAfterMs: NEVER });
    if (await lacks(session, 'subprocesses')) return;
    await session.run('x = 1');
    await session.save();
    await session.run('x = 2', { transaction: 'explicit' });
    await killIdle(session, session.pid);
    expect(await session.run('x')).toMatchObject({ status: 'ok', value: 1, recovered: {} });
    await expect(session.commit()).rejects.toMatchObject({ code: 'NO_TRANSACTION' });
  });

  it('after a death in a transaction that cannot be rolled back any more is from the last save', async () => {
    await using session = await open({ saveAfterMs: NEVER });
    await session.run('x = 1');
    await session.save();
    await session.run('x = 2');
    if (await lacks(session, 'subprocesses')) return;
    const { pid } = session;
    const code = 'x = 3\nprint("ready", flush=True)\nwhile True: pass';
    const { result } = await runUntilReady(session, code, { transaction: 'rollback_on_failure' });
    kill(pid);
    const died = await result;
    expect(died).toMatchObject({ status: 'died', stdout: 'ready\n' });
    expect(died.transaction).toBeUndefined();
    expect(await session.run('x')).toMatchObject({ value: 1, recovered: { restored: ['x'] } });
  });
}

function notices(open: Open): void {
  it('says how old the save was', async () => {
    await using session = await open({ saveAfterMs: NEVER });
    await session.run('x = 1');
    await session.save();
    const [save] = await session.checkpoints();
    await session.run('import time; time.sleep(0.3)');
    await session.run('import os; os._exit(1)');
    const { recovered } = await session.run('x');
    const age = Date.now() - (save?.createdAt ?? 0);
    expect(recovered?.savedAgoMs).toBeGreaterThanOrEqual(250);
    expect(recovered?.savedAgoMs).toBeLessThanOrEqual(age);
  });

  it('says that nothing came back where nothing was ever saved', async () => {
    await using session = await open({ saveAfterMs: NEVER });
    await session.run('x = 1');
    await session.run('import os; os._exit(1)');
    const { value, recovered } = await session.run('"x" in dir()');
    expect({ value, recovered }).toMatchObject({ value: false, recovered: { restored: [], cause: { exitCode: 1 } } });
    expect(recovered?.savedAgoMs).toBeUndefined();
  });

  it('is told by the cell that comes next, also where that one dies too', async () => {
    await using session = await open({ saveAfterMs: NEVER });
    await session.run('x = 1');
    await session.save();
    const results = await Promise.all([
      session.run('import os; os._exit(1)'),
      session.run('import os; os._exit(2)'),
      session.run('x'),
    ]);
    expect(results.map(({ status }) => status)).toEqual(['died', 'died', 'ok']);
    expect(results.map(({ recovered }) => recovered?.cause.exitCode)).toEqual([undefined, 1, 2]);
    expect(results[2]?.value).toBe(1);
  });

  it('keeps counting executions from where they were', async () => {
    await using session = await open();
    await session.run('1');
    await session.run('import os; os._exit(1)');
    expect(await session.run('3')).toMatchObject({ execution: 3 });
  });

  it('brings back an older save where the last one is damaged', async () => {
    const dataDir = await scratchFolder();
    await using session = await open({ dataDir, saveAfterMs: NEVER });
    for (const n of [1, 2]) {
      await session.run(`x = [${n}]`);
      await session.save();
    }
    const newest = (await session.checkpoints()).at(-1);
    spoilAll(join(checkpointFolder(dataDir), newest?.id ?? ''));
    await session.run('import os; os._exit(1)');
    expect(await session.run('x')).toMatchObject({ value: [1], recovered: { restored: ['x'] } });
  });

  it('brings back what is whole of a save that is damaged in part', async () => {
    const dataDir = await scratchFolder();
    await using session = await open({ dataDir, saveAfterMs: NEVER });
    await session.run('import os\none = os.urandom(3000); two = os.urandom(3000)');
    await session.save();
    const [path = ''] = storedCheckpoints(dataDir);
    const { chunk, offset } = locate(path, 'one');
    flip(chunk, offset + 100);
    await session.run('os._exit(1)');
    const { value, recovered } = await session.run('["one" in dir(), "os" in dir()]');
    expect(value).toEqual([false, true]);
    expect(reasons(recovered?.lost).one).toContain('damaged');
    expect(recovered?.restored).toContain('os');
  });

  it('goes on with nothing where every save is damaged, and says so', async () => {
    const dataDir = await scratchFolder();
    await using session = await open({ dataDir, saveAfterMs: NEVER });
    await session.run('x = [1]');
    await session.save();
    for (const path of storedCheckpoints(dataDir)) spoilAll(path);
    await session.run('import os; os._exit(1)');
    const result = await session.run('"x" in dir()');
    expect(result).toMatchObject({ status: 'ok', value: false, recovered: { restored: [] } });
    expect(reasons(result.recovered?.lost).x).toContain('damaged');
  });

  it('lets a session be opened where every save is damaged, and says so', async () => {
    const dataDir = await scratchFolder();
    const first = await open({ dataDir });
    await first.run('x = [1]');
    await first.close();
    for (const path of storedCheckpoints(dataDir)) spoilAll(path);
    await using second = await open({ dataDir });
    const result = await second.run('"x" in dir()');
    expect(result).toMatchObject({ status: 'ok', value: false, woken: { restored: [] } });
    expect(reasons(result.woken?.lost).x).toContain('damaged');
  });
}

function crashLoop(open: Open): void {
  it('gives up after three times without a cell that ended, and reset() mends it', async () => {
    await using session = await open({ saveAfterMs: NEVER });
    await session.run('x = 1');
    await session.save();
    const die = () => session.run('import os; os._exit(1)');
    for (let round = 0; round < 4; round++) expect((await die()).status).toBe('died');
    const loop = { code: 'KERNEL_CRASH_LOOP', details: { exitCode: 1 } };
    await expect(session.run('x')).rejects.toMatchObject(loop);
    await expect(session.run('x')).rejects.toMatchObject(loop);
    await session.reset();
    expect(await session.run('["x" in dir(), 6 * 7]')).toMatchObject({ status: 'ok', value: [false, 42] });
    expect((await die()).status).toBe('died');
    expect(await session.run('1')).toMatchObject({ status: 'ok', value: 1 });
  });

  it.each(['restart', 'restore'] as const)('is ended by %s() too', async (how) => {
    await using session = await open({ saveAfterMs: NEVER });
    await session.run('x = 1');
    await session.checkpoint({ name: 'base', durable: true });
    for (let round = 0; round < 4; round++) await session.run('import os; os._exit(1)');
    await expect(session.run('x')).rejects.toMatchObject({ code: 'KERNEL_CRASH_LOOP' });
    await (how === 'restart' ? session.restart() : session.restore('base'));
    expect(await session.run('"x" in dir()')).toMatchObject({ status: 'ok', value: how === 'restore' });
  });

  it('is ended by restore() of a live checkpoint too', async () => {
    await using session = await open({ saveAfterMs: NEVER });
    await session.run('x = 1');
    await session.checkpoint({ name: 'base' });
    for (let round = 0; round < 4; round++) await session.run('import os; os._exit(1)');
    await expect(session.run('x')).rejects.toMatchObject({ code: 'KERNEL_CRASH_LOOP' });
    if (!session.capabilities.trueRollback) {
      await expect(session.restore('base')).rejects.toMatchObject({ code: 'CHECKPOINT_GONE' });
      return;
    }
    await session.restore('base');
    expect(await session.run('x')).toMatchObject({ status: 'ok', value: 1 });
  });

  it('begins to count anew with every cell that ends', async () => {
    await using session = await open({ saveAfterMs: NEVER });
    await session.run('x = 1');
    await session.save();
    for (let round = 0; round < 3; round++) {
      for (let death = 0; death < 3; death++) expect((await session.run('import os; os._exit(1)')).status).toBe('died');
      expect(await session.run('x')).toMatchObject({ status: 'ok', value: 1 });
    }
  });

  it('can be closed, and the next session has the last save', async () => {
    const dataDir = await scratchFolder();
    const session = await open({ dataDir, saveAfterMs: NEVER });
    await session.run('x = 1');
    await session.save();
    for (let round = 0; round < 4; round++) await session.run('import os; os._exit(1)');
    await expect(session.run('x')).rejects.toMatchObject({ code: 'KERNEL_CRASH_LOOP' });
    await session.close();
    await using again = await open({ dataDir });
    expect(await again.run('x')).toMatchObject({ value: 1, woken: {} });
  });
}

function saves(open: Open, templated: boolean): void {
  const automatic = async (session: Session) => (await session.checkpoints()).filter((one) => one.automatic);

  it('come by themselves some time after the last cell', async () => {
    await using session = await open({ saveAfterMs: 0 });
    const events = session.background();
    await session.run('x = 1');
    for await (const event of events) {
      expect(event).toMatchObject({ type: 'saved', names: 1, lost: [] });
      break;
    }
    const [save] = await automatic(session);
    expect(save).toMatchObject({ kind: 'durable', automatic: true, saved: ['x'], execution: 1 });
    expect(save?.name).toBeUndefined();
    await session.run('import os; os._exit(1)');
    expect(await session.run('x')).toMatchObject({ value: 1, recovered: { restored: ['x'] } });
  });

  it('come by themselves also after a rollback, a reset and a restore', async () => {
    await using session = await open({ saveAfterMs: 0 });
    const last = async () => (await automatic(session)).at(-1)?.saved;
    await session.run('x = 1');
    await expect.poll(last).toEqual(['x']);
    await session.checkpoint({ name: 'base' });
    await session.run('y = 2');
    await expect.poll(last).toEqual(['x', 'y']);
    await session.restore('base');
    await expect.poll(last).toEqual(['x']);
    await session.reset();
    await expect.poll(last).toEqual([]);
  });

  it('do not come while nothing has changed', async () => {
    await using session = await open({ saveAfterMs: NEVER });
    await session.run('x = 1');
    await session.save();
    const before = await automatic(session);
    await session.save();
    await session.variables();
    await session.save();
    expect(await automatic(session)).toEqual(before);
    await session.run('x = 2');
    await session.save();
    expect((await automatic(session)).at(-1)?.id).not.toBe(before[0]?.id);
  });

  it('keep the last two, and no more', async () => {
    await using session = await open({ saveAfterMs: NEVER });
    for (let n = 1; n <= 5; n++) {
      await session.run(`x = ${n}`);
      await session.save();
    }
    expect((await automatic(session)).map(({ execution }) => execution)).toEqual([4, 5]);
  });

  it('do not hold up the cells that come meanwhile', async () => {
    await using session = await open({ saveAfterMs: NEVER });
    // Each takes its time to be saved.
    await session.run(
      'import time\nclass Slow:\n    def __reduce__(self):\n        time.sleep(0.4)\n        return (int, ())\nslow = [Slow(), Slow()]\nx = 1',
    );
    const saving = session.save();
    // It has begun when this is answered.
    await session.variables();
    const result = await session.run('x = 2; x');
    expect(result.value).toBe(2);
    expect(await Promise.race([saving.then(() => 'saved'), Promise.resolve('still saving')])).toBe('still saving');
    await saving;
    // It holds what was there when it began.
    await session.run('import os; os._exit(1)');
    expect(await session.run('x')).toMatchObject({ value: 1, recovered: {} });
  });

  it('that are being written when the session is closed or put to sleep are not lost', async () => {
    const dataDir = await scratchFolder();
    for (const end of ['close', 'hibernate'] as const) {
      const session = await open({ dataDir, saveAfterMs: NEVER });
      await session.run(`word = ${JSON.stringify(end)}; block = bytes(8 << 20)`);
      const saving = session.save().catch(() => {}); // it may be overtaken
      await session[end]();
      await saving;
      if (end === 'hibernate') {
        expect(await session.run('word')).toMatchObject({ value: end, woken: {} });
        await session.close();
      }
      await using again = await open({ dataDir });
      expect(await again.run('word')).toMatchObject({ value: end, woken: { restored: ['word', 'block'] } });
      await again.close();
    }
  });

  it('that have just begun when the session is closed are not lost', async () => {
    const dataDir = await scratchFolder();
    const rounds = everything && templated ? 10 : 4;
    for (let n = 0; n < rounds; n++) {
      const session = await open({ dataDir, saveAfterMs: 0 });
      await session.run(`n = ${n}; block = bytes(4 << 20)`);
      // The save begins at any moment now.
      for (let turn = 0; turn < n; turn++) await new Promise((resolve) => setImmediate(resolve));
      await session.close();
      await using again = await open({ dataDir, saveAfterMs: NEVER });
      expect(await again.run('n')).toMatchObject({ value: n, woken: {} });
      await again.close();
    }
  });

  it('do not get in the way of going back, whatever they are at', async () => {
    await using session = await open({ saveAfterMs: 0 });
    await session.run('x = 1');
    await session.checkpoint({ name: 'base' });
    for (let round = 0; round < (everything ? 60 : 30); round++) {
      await session.run(`x = 2; late = ${round}`);
      const saving = session.save().catch(() => {}); // it may be overtaken
      if (round % 3 === 0) await saving;
      for (let turn = 0; turn < round; turn++) await new Promise((resolve) => setImmediate(resolve));
      if (round % 2 === 0) await session.restore('base');
      else await session.run('x = 1; del late', { transaction: 'explicit' }).then(() => session.commit());
      expect(await evaluate(session, '[x, "late" in dir()]')).toEqual([1, false]);
    }
  });

  it('work beside threads, which are not in the way of the next cell', async () => {
    await using session = await open({ saveAfterMs: NEVER });
    if (await lacks(session, 'threads')) return;
    await session.run(
      'import threading\ngo = threading.Event()\nt = threading.Thread(target=go.wait); t.start()\nx = 1',
    );
    await session.save();
    expect((await automatic(session)).at(-1)?.saved).toContain('x');
    expect(await session.run('t.is_alive()')).toMatchObject({ value: true });
    expect(await session.run('go.set(); t.join(); t.is_alive()')).toMatchObject({ value: false });
  });

  it('leave no process behind', async () => {
    await using session = await open({ saveAfterMs: NEVER });
    if (await lacks(session, 'subprocesses')) return;
    for (let n = 0; n < 5; n++) {
      await session.run(`x = ${n}`);
      await session.save();
    }
    await eventually(
      () => residents(session).length,
      (count) => count === 1,
      5000,
    );
  });

  it('are not made where nothing is to persist, and there is no lock', async () => {
    const dataDir = await scratchFolder();
    const one = await open({ dataDir, persist: false, saveAfterMs: 0 });
    await using two = await open({ dataDir, persist: false, saveAfterMs: 0 });
    await one.run('x = 1');
    await one.save();
    expect(await one.checkpoints()).toEqual([]);
    await one.run('import os; os._exit(1)');
    expect(await one.run('"x" in dir()')).toMatchObject({ value: false, recovered: { restored: [] } });
    await one.run('x = 2');
    await one.close();
    expect(existsSync(join(dataDir, 'checkpoints'))).toBe(false);
    expect(existsSync(join(dataDir, 'cella.db'))).toBe(false);
    expect(await two.run('1')).toMatchObject({ value: 1 });
    await using again = await open({ dataDir });
    const result = await again.run('"x" in dir()');
    expect(result.value).toBe(false);
    expect(result.woken).toBeUndefined();
  });
}

function hibernation(open: Open): void {
  it('ends the kernel, and the next call brings it back with its names', async () => {
    await using session = await open();
    if (await lacks(session, 'subprocesses')) return;
    await session.run('x = [1]\ndef f(): return x\nlive = open("live", "w")\nimport math');
    const { pid } = session;
    await session.hibernate();
    expect(session.pid).toBe(0);
    await eventually(
      () => isAlive(pid),
      (alive) => !alive,
      5000,
    );
    const { value, woken, recovered } = await session.run('[f(), math.floor(1.5), "live" in dir()]');
    expect(value).toEqual([[1], 1, false]);
    expect([...(woken?.restored ?? [])].sort()).toEqual(['f', 'math', 'x']);
    expect(reasons(woken?.lost).live).toContain('file');
    expect(woken?.savedAgoMs).toBeGreaterThanOrEqual(0);
    expect(recovered).toBeUndefined();
    expect((await session.run('x')).woken).toBeUndefined();
  });

  it('can be asked for twice, and of a kernel that never ran anything', async () => {
    await using session = await open();
    await session.hibernate();
    await session.hibernate();
    expect(await session.run('1')).toMatchObject({ value: 1 });
    await session.run('x = 1');
    await Promise.all([session.hibernate(), session.hibernate()]);
    expect(await session.run('x')).toMatchObject({ value: 1, woken: {} });
  });

  it('waits for what runs', async () => {
    await using session = await open();
    const released = Promise.withResolvers<string>();
    const { result } = await runUntilReady(session, 'print("ready")\nx = input()', { onInput: () => released.promise });
    const asleep = session.hibernate();
    released.resolve('answered');
    expect((await result).status).toBe('ok');
    await asleep;
    expect(await session.run('x')).toMatchObject({ value: 'answered', woken: {} });
  });

  it('is ended by any call: variables, checkpoint, restore, fork', async () => {
    await using session = await open();
    await session.run('apple = 1');
    await session.checkpoint({ name: 'base', durable: true });
    await session.hibernate();
    expect((await session.variables()).map(({ name }) => name)).toEqual(['apple']);
    await session.hibernate();
    await session.checkpoint({ name: 'live' });
    await session.run('apple = 2');
    await session.restore('live');
    expect(await evaluate(session, 'apple')).toBe(1);
    await session.run('apple = 3');
    await session.hibernate();
    await session.restore('base');
    expect(await evaluate(session, 'apple')).toBe(1);
    await session.hibernate();
    if (await lacks(session, 'forks')) return;
    await using child = await session.fork({ agentKey: 'child' });
    expect(await evaluate(child, 'apple')).toBe(1);
  });

  it('is what closing a session and opening it again comes to', async () => {
    const dataDir = await scratchFolder();
    const first = await open({ dataDir, agentKey: 'a' });
    await first.run('x = 1; note = [x]');
    await first.run('import random\nrandom.seed(9); random.random()');
    await first.close();
    await using second = await open({ dataDir, agentKey: 'a' });
    const { value, woken, execution } = await second.run('[x, note, random.random()]');
    await using reference = await open();
    const drawn = await evaluate(reference, 'import random\nrandom.seed(9); random.random()\nrandom.random()');
    expect(value).toEqual([1, [1], drawn]);
    expect([...(woken?.restored ?? [])].sort()).toEqual(['note', 'random', 'x']);
    expect(execution).toBeGreaterThan(2);
    expect((await second.history()).map(({ code }) => code)[0]).toBe('x = 1; note = [x]');
  });

  it('has nothing to tell where there was nothing', async () => {
    const dataDir = await scratchFolder();
    const first = await open({ dataDir });
    await first.close();
    await using second = await open({ dataDir });
    expect((await second.run('1')).woken).toBeUndefined();
  });

  it('remembers a reset: names that were cleared do not come back', async () => {
    const dataDir = await scratchFolder();
    const first = await open({ dataDir });
    await first.run('x = 1');
    await first.save();
    await first.reset();
    await first.close();
    await using second = await open({ dataDir });
    expect(await evaluate(second, '"x" in dir()')).toBe(false);
  });

  it('ends what runs when the session is closed, and keeps the save before it', async () => {
    const dataDir = await scratchFolder();
    const first = await open({ dataDir });
    await first.run('x = 1');
    await first.save();
    const { result } = await runUntilReady(first, 'x = 2\nprint("ready", flush=True)\nwhile True: pass');
    await first.close();
    expect((await result).status).toBe('died');
    await using second = await open({ dataDir });
    expect(await second.run('x')).toMatchObject({ value: 1, woken: {} });
  });
}

function locks(open: Open): void {
  it('is AGENT_BUSY for a second session in the same process, and free after the first is closed', async () => {
    const dataDir = await scratchFolder();
    const before = Date.now();
    const first = await open({ dataDir, agentKey: 'a' });
    const failure = await open({ dataDir, agentKey: 'a' }).catch((error) => error);
    expect(failure).toMatchObject({ code: 'AGENT_BUSY', details: { pid: process.pid } });
    expect(failure.details.since).toBeGreaterThanOrEqual(before);
    expect(failure.details.since).toBeLessThanOrEqual(Date.now());
    await using _other = await open({ dataDir, agentKey: 'b' });
    expect(await evaluate(first, '1')).toBe(1);
    await first.close();
    await using again = await open({ dataDir, agentKey: 'a' });
    expect(await evaluate(again, '1')).toBe(1);
  });

  it('is AGENT_BUSY for another process, and free after the holder ends or is killed', async () => {
    const dataDir = await scratchFolder();
    for (const how of ['kill', 'end'] as const) {
      await using host = new RemoteHost();
      await host.open({ dataDir });
      await host.run('x = 1');
      await host.call('save');
      await expect(open({ dataDir })).rejects.toMatchObject({
        code: 'AGENT_BUSY',
        details: { pid: host.pid, since: expect.any(Number) },
        message: expect.stringContaining(String(host.pid)),
      });
      await host[how]();
      await using session = await open({ dataDir });
      expect(await session.run('x')).toMatchObject({ value: 1, woken: {} });
      await using late = new RemoteHost();
      await expect(late.open({ dataDir })).rejects.toMatchObject({ code: 'AGENT_BUSY', details: { pid: process.pid } });
      await session.close();
    }
  });

  it('is held while its kernel sleeps or is dead', async () => {
    const dataDir = await scratchFolder();
    await using session = await open({ dataDir });
    await session.run('x = 1');
    await session.hibernate();
    await expect(open({ dataDir })).rejects.toMatchObject({ code: 'AGENT_BUSY' });
    await session.run('import os; os._exit(1)');
    await expect(open({ dataDir })).rejects.toMatchObject({ code: 'AGENT_BUSY' });
  });

  it('is free again where the session could not be opened', async () => {
    const dataDir = await scratchFolder();
    await expect(open({ dataDir, preload: ['no_such_module_here'] })).rejects.toMatchObject({
      code: 'INVALID_OPTIONS',
    });
    await using session = await open({ dataDir });
    expect(await evaluate(session, '1')).toBe(1);
  });

  it('goes to exactly one of many who want it at once', async () => {
    const dataDir = await scratchFolder();
    const asked = await Promise.allSettled(Array.from({ length: 6 }, () => open({ dataDir })));
    const got = asked.filter(({ status }) => status === 'fulfilled');
    const refused = asked.flatMap((one) => (one.status === 'rejected' ? [one.reason.code] : []));
    expect([got.length, refused]).toEqual([1, Array.from({ length: 5 }, () => 'AGENT_BUSY')]);
  });
}

/** Changes one byte of a file. */
function flip(path: string, at: number): void {
  const data = readFileSync(path);
  data[at] = (data[at] ?? 0) ^ 1;
  writeFileSync(path, data);
}

/** Leaves no segment of a checkpoint whole. */
function spoilAll(checkpoint: string): void {
  const chunk = join(checkpoint, '0000.chunk');
  writeFileSync(
    chunk,
    readFileSync(chunk).map((byte) => byte ^ 255),
  );
}
