/** Live checkpoints: points in the memory of a kernel that it can go back to, as often as anybody wants. */

import { describe, expect, it } from 'vitest';
import { eventually } from '../../support/kernels/attack-code.ts';
import { type Open, runUntilReady } from '../../support/kernels/session.ts';
import { evaluate, kernelPid, kill, residents } from '../../support/kernels/state.ts';
import { lacks } from '../../support/kernels/unsupported.ts';

const unknown = { code: 'CHECKPOINT_NOT_FOUND' };
const gone = { code: 'CHECKPOINT_GONE' };

/** `short`: what differs from executor to executor. */
export function liveCheckpointContract(open: Open, short = false): void {
  describe('a live checkpoint', () => {
    goingBack(open);
    if (!short) keeping(open);
  });
}

function goingBack(open: Open): void {
  it('is restored by id and by name, repeatedly, with everything in memory', async () => {
    await using session = await open();
    await session.run(
      'import random, os\nrandom.seed(3)\na = [1]\ndef f(seen=[]):\n    seen.append(1)\n    return len(seen)\nf()',
    );
    const made = await session.checkpoint({ name: 'base' });
    expect(made).toMatchObject({ name: 'base', kind: 'live', automatic: false, execution: 1 });
    const looks: unknown[] = [];
    for (const which of ['base', made.id, 'base', made.id]) {
      await session.run('a.append(2); late = 1; del os; random.random()');
      const { checkpoint, restored, lost } = await session.restore(which);
      expect({ id: checkpoint.id, restored, lost }).toEqual({ id: made.id, restored: undefined, lost: undefined });
      looks.push(await evaluate(session, '[a, "late" in dir(), "os" in dir(), f(), random.random()]'));
    }
    expect(looks[0]).toMatchObject([[1], false, true, 2, expect.any(Number)]);
    expect(looks).toEqual([looks[0], looks[0], looks[0], looks[0]]);
  });

  it('restores a fully functional kernel', async () => {
    await using session = await open();
    await session.run('x = 1');
    await session.checkpoint({ name: 'base' });
    await session.run('x = 2');
    await session.restore('base');
    expect(await session.run('input("? ")', { onInput: () => 'yes' })).toMatchObject({ value: 'yes' });
    expect(await session.run('import asyncio\nawait asyncio.sleep(0, x)')).toMatchObject({ value: 1 });
    expect((await session.run('print("out")')).stdout).toBe('out\n');
    const { result } = await runUntilReady(session, 'x = 5\nprint("ready", flush=True)\nwhile True: pass');
    await session.interrupt();
    expect((await result).status).toBe('interrupted');
    expect(await session.run('x = 6; 1 / 0', { transaction: 'rollback_on_failure' })).toMatchObject({
      transaction: 'rolled_back',
    });
    expect(await evaluate(session, 'x')).toBe(5);
  });

  it('can be restored back and forward, if there are several', async () => {
    await using session = await open();
    for (const name of ['one', 'two', 'three']) {
      await session.run(`x = ${JSON.stringify(name)}`);
      await session.checkpoint({ name });
    }
    for (const name of ['one', 'three', 'two', 'one', 'two']) {
      await session.restore(name);
      expect(await evaluate(session, 'x')).toBe(name);
    }
  });

  it('is not changed by later work after it was restored', async () => {
    await using session = await open();
    await session.run('a = []');
    await session.checkpoint({ name: 'empty' });
    for (let round = 0; round < 5; round++) {
      await session.restore('empty');
      expect(await evaluate(session, 'a.append(1); len(a)')).toBe(1);
    }
  });

  it('created after a restore contains the later work', async () => {
    await using session = await open();
    await session.run('path = [1]');
    await session.checkpoint({ name: 'one' });
    await session.run('path.append("left")');
    await session.checkpoint({ name: 'left' });
    await session.restore('one');
    await session.run('path.append("right")');
    await session.checkpoint({ name: 'right' });
    await session.restore('left');
    expect(await evaluate(session, 'path')).toEqual([1, 'left']);
    await session.restore('right');
    expect(await evaluate(session, 'path')).toEqual([1, 'right']);
  });

  it('survives the end of the kernel, and a reset', async () => {
    await using session = await open();
    await session.run('x = 1');
    await session.checkpoint({ name: 'base' });
    if (session.capabilities.trueRollback) await session.run('x = 2\nimport os; os._exit(1)');
    await session.restore('base');
    expect(await evaluate(session, 'x')).toBe(1);
    await session.reset();
    expect(await evaluate(session, '"x" in dir()')).toBe(false);
    await session.restore('base');
    expect(await evaluate(session, 'x')).toBe(1);
    if (session.capabilities.trueRollback) return;
    // It is in the memory of the kernel itself.
    await session.run('import os; os._exit(1)');
    await expect(session.restore('base')).rejects.toMatchObject({ code: 'CHECKPOINT_GONE' });
  });

  it('ends an open transaction', async () => {
    await using session = await open();
    await session.run('x = 1');
    await session.checkpoint({ name: 'base' });
    await session.run('x = 2', { transaction: 'explicit' });
    await session.restore('base');
    await expect(session.commit()).rejects.toMatchObject({ code: 'NO_TRANSACTION' });
    expect(await evaluate(session, 'x')).toBe(1);
  });

  it('waits for running code before it is created or restored', async () => {
    await using session = await open();
    const cell = session.run('import time\nx = 0\nfor _ in range(20):\n    time.sleep(0.002)\n    x += 1');
    const made = session.checkpoint({ name: 'after' });
    const later = session.run('x = -1');
    const back = session.restore('after');
    await Promise.all([cell, made, later, back]);
    expect(await evaluate(session, 'x')).toBe(20);
  });
}

function keeping(open: Open): void {
  it('is listed with the others, the oldest first, until it is deleted', async () => {
    await using session = await open();
    if (await lacks(session, 'subprocesses')) return;
    expect(await session.checkpoints()).toEqual([]);
    await session.run('x = 1');
    const one = await session.checkpoint({ name: 'one' });
    const two = await session.checkpoint();
    expect(two.name).toBeUndefined();
    expect(await session.checkpoints()).toEqual([one, two]);
    await session.deleteCheckpoint('one');
    expect(await session.checkpoints()).toEqual([two]);
    await expect(session.restore('one')).rejects.toMatchObject(unknown);
    await expect(session.restore(one.id)).rejects.toMatchObject(unknown);
    await session.deleteCheckpoint(two.id);
    expect(await session.checkpoints()).toEqual([]);
    // Its process is gone too.
    await eventually(
      () => residents(session).length,
      (count) => count === 1,
      5000,
    );
  });

  it('that does not exist is CHECKPOINT_NOT_FOUND, and nothing is lost', async () => {
    await using session = await open();
    await session.run('x = 1');
    for (const which of ['nothing', '', '00000000-0000-4000-8000-000000000000']) {
      await expect(session.restore(which)).rejects.toMatchObject(unknown);
      await expect(session.deleteCheckpoint(which)).rejects.toMatchObject(unknown);
      if (await lacks(session, 'forks')) continue;
      await expect(session.fork({ agentKey: 'other', from: which })).rejects.toMatchObject(unknown);
    }
    expect(await evaluate(session, 'x')).toBe(1);
  });

  it('must have a printable name', async () => {
    await using session = await open();
    for (const name of ['', '  ', 'x'.repeat(201), '\ud800']) {
      await expect(session.checkpoint({ name }), JSON.stringify(name)).rejects.toMatchObject({
        code: 'INVALID_OPTIONS',
      });
    }
    expect(await session.checkpoints()).toEqual([]);
  });

  it('with a used name replaces the other', async () => {
    await using session = await open();
    await session.run('x = 1');
    const first = await session.checkpoint({ name: 'base' });
    await session.run('x = 2');
    const second = await session.checkpoint({ name: 'base' });
    await session.run('x = 3');
    expect((await session.restore('base')).checkpoint.id).toBe(second.id);
    expect(await evaluate(session, 'x')).toBe(2);
    await expect(session.restore(first.id)).rejects.toMatchObject(gone);
  });

  it('over the limit drops the oldest, which is listed as gone', async () => {
    await using session = await open({ liveCheckpoints: 3 });
    if (await lacks(session, 'subprocesses')) return;
    for (let n = 1; n <= 5; n++) {
      await session.run(`x = ${n}`);
      await session.checkpoint({ name: `point ${n}` });
    }
    const listed = await session.checkpoints();
    expect(listed.map(({ name }) => name)).toEqual(['point 1', 'point 2', 'point 3', 'point 4', 'point 5']);
    expect(listed.map((one) => one.gone !== undefined)).toEqual([true, true, false, false, false]);
    expect(listed[0]?.gone).toContain('oldest');
    await expect(session.restore('point 2')).rejects.toMatchObject(gone);
    expect(await evaluate(session, 'x')).toBe(5);
    await session.restore('point 3');
    expect(await evaluate(session, 'x')).toBe(3);
    await eventually(
      () => residents(session).length,
      (count) => count === 4,
      5000,
    );
  });

  it('can be turned off', async () => {
    await using session = await open({ liveCheckpoints: 0 });
    await session.run('x = 1');
    const { id } = await session.checkpoint({ name: 'none' });
    await expect(session.restore(id)).rejects.toMatchObject(gone);
    expect(await session.run('x = 2; 1 / 0', { transaction: 'rollback_on_failure' })).toMatchObject({
      transaction: 'rolled_back',
    });
    expect(await evaluate(session, 'x')).toBe(1);
  });

  it('is dropped if all of them use too much memory, and the kernel lives on', async () => {
    await using session = await open({ limits: { memoryMb: 400 } });
    if (await lacks(session, 'native code')) return;
    await session.run('import numpy');
    for (let n = 1; n <= 6; n++) {
      // A fresh array each time: what only a checkpoint still holds is its own.
      await session.run(`a = numpy.full(60 << 17, ${n}.0)`);
      await session.checkpoint({ name: `point ${n}` });
    }
    const listed = await session.checkpoints();
    const left = listed.filter((one) => one.gone === undefined).map(({ name }) => name);
    expect(left.length).toBeGreaterThanOrEqual(2);
    expect(left.length).toBeLessThanOrEqual(4);
    expect(left.at(-1)).toBe('point 6');
    expect(listed[0]?.gone).toContain('memory');
    await expect(session.restore('point 1')).rejects.toMatchObject(gone);
    const result = await session.run('float(a[0])');
    expect(result).toMatchObject({ status: 'ok', value: 6 });
    expect(result.recovered).toBeUndefined();
    await session.restore(left[0] ?? '');
    expect(await evaluate(session, '"point %d" % a[-1]')).toBe(left[0]);
  });

  it.each(['restart', 'hibernate'] as const)('is gone after %s(), and listed so', async (end) => {
    await using session = await open();
    await session.run('x = 1');
    const { id } = await session.checkpoint({ name: 'base' });
    await session[end]();
    const before = await session.checkpoints();
    expect(before.find((one) => one.id === id)?.gone).toEqual(expect.any(String));
    await expect(session.restore('base')).rejects.toMatchObject(gone);
    await expect(session.restore(id)).rejects.toMatchObject(gone);
    const forkless = await lacks(session, 'forks');
    if (!forkless) await expect(session.fork({ agentKey: 'other', from: 'base' })).rejects.toMatchObject(gone);
    // One of the same name can be made again.
    await session.run('x = 2');
    await session.checkpoint({ name: 'base' });
    await session.run('x = 3');
    await session.restore('base');
    expect(await evaluate(session, 'x')).toBe(2);
  });

  it('created after a restart is not affected by those before it', async () => {
    await using session = await open();
    await session.run('x = 1');
    const old = await session.checkpoint({ name: 'old' });
    await session.restart();
    await session.run('x = 2');
    await session.checkpoint({ name: 'young' });
    await session.deleteCheckpoint(old.id);
    await session.run('x = 3');
    await session.restore('young');
    expect(await evaluate(session, 'x')).toBe(2);
  });

  it('whose process is killed is listed as gone, and the others are not affected', async () => {
    // No save forks a process of its own meanwhile, which would be taken for the one to kill.
    await using session = await open({ persist: false });
    if (await lacks(session, 'subprocesses')) return;
    await session.run('x = 1');
    // As many as will be there again, so that numbers come again too.
    await session.checkpoint({ name: 'old' });
    await session.restart();
    await session.run('x = 2');
    const pid = await kernelPid(session);
    await session.checkpoint({ name: 'first' });
    const [snapshot] = residents(session).filter((one) => one !== pid);
    await session.checkpoint({ name: 'second' });
    kill(snapshot ?? 0);
    await expect
      .poll(async () => (await session.checkpoints()).filter((one) => one.gone !== undefined).map(({ name }) => name))
      .toEqual(['old', 'first']);
    await expect(session.restore('first')).rejects.toMatchObject(gone);
    await session.run('x = 3');
    await session.restore('second');
    expect(await evaluate(session, 'x')).toBe(2);
  });

  it('does not outlive the session, and leaves no process', async () => {
    const session = await open();
    if (await lacks(session, 'subprocesses')) return;
    await session.run('x = 1');
    for (let n = 0; n < 5; n++) await session.checkpoint();
    const all = residents(session);
    expect(all).toHaveLength(6);
    await session.close();
    await eventually(
      () => all.filter((pid) => lives(pid)),
      (left) => left.length === 0,
      5000,
    );
    await expect(session.checkpoint()).rejects.toMatchObject({ code: 'SESSION_CLOSED' });
    await expect(session.restore('x')).rejects.toMatchObject({ code: 'SESSION_CLOSED' });
    await expect(session.checkpoints()).rejects.toMatchObject({ code: 'SESSION_CLOSED' });
  });

  it('works without storage', async () => {
    await using session = await open({ persist: false });
    await session.run('x = 1');
    await session.checkpoint({ name: 'base' });
    await session.run('x = 2');
    await session.restore('base');
    expect(await evaluate(session, 'x')).toBe(1);
  });
}

function lives(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

export function undoContract(open: Open): void {
  describe('undo', () => {
    it('goes back cell by cell, in reverse order', async () => {
      await using session = await open({ undo: 3 });
      for (let n = 1; n <= 3; n++) await session.run(`x = ${n}`);
      await session.undo();
      expect(await evaluate(session, 'x')).toBe(2);
      // Looking was a cell of its own.
      await session.undo();
      await session.undo();
      expect(await evaluate(session, 'x')).toBe(1);
    });

    it('undoes a cell that failed, and one that was committed', async () => {
      await using session = await open({ undo: 5 });
      await session.run('x = 1');
      await session.run('x = 2; 1 / 0');
      await session.undo();
      expect((await session.variables()).map(({ preview }) => preview)).toEqual(['1']);
      await session.run('x = 3', { transaction: 'explicit' });
      await session.commit();
      await session.undo();
      expect((await session.variables()).map(({ preview }) => preview)).toEqual(['1']);
    });

    it('undoes a cell that ended its kernel', async () => {
      await using session = await open({ undo: 5 });
      await session.run('x = 1');
      await session.run('x = 2');
      expect((await session.run('x = 3; import os; os._exit(1)')).status).toBe('died');
      if (!session.capabilities.trueRollback) {
        await expect(session.undo()).rejects.toMatchObject({ code: expect.stringMatching(/GONE|NOTHING_TO_UNDO/) });
        return;
      }
      await session.undo();
      expect((await session.variables()).map(({ preview }) => preview)).toEqual(['2']);
    });

    it('goes back no further than its limit, and says so', async () => {
      await using session = await open({ undo: 2 });
      for (let n = 1; n <= 4; n++) await session.run(`x = ${n}`);
      await session.undo();
      await session.undo();
      await expect(session.undo()).rejects.toMatchObject({ code: 'NOTHING_TO_UNDO' });
      expect((await session.variables()).map(({ preview }) => preview)).toEqual(['2']);
    });

    it('has nothing to go back to if the option is off', async () => {
      await using session = await open();
      await session.run('x = 1');
      await expect(session.undo()).rejects.toMatchObject({ code: 'NOTHING_TO_UNDO' });
      expect(await evaluate(session, 'x')).toBe(1);
    });

    it('does not prevent a cell from running next to a thread', async () => {
      await using session = await open({ undo: 2 });
      if (await lacks(session, 'threads')) return;
      await session.run('x = 1');
      await session.run('import threading\ngo = threading.Event()\nthreading.Thread(target=go.wait).start()');
      expect(await session.run('x = 2; x')).toMatchObject({ status: 'ok', value: 2 });
      expect((await session.run('go.set()')).status).toBe('ok');
    });

    it('does not accumulate processes, however many cells run or die', async () => {
      await using session = await open({ undo: 2 });
      if (await lacks(session, 'subprocesses')) return;
      for (let n = 0; n < 6; n++) await session.run('1');
      for (let n = 0; n < 6; n++) {
        await session.run('import os; os._exit(1)');
        await session.run('1');
      }
      await eventually(
        () => residents(session).length,
        (count) => count <= 3,
        5000,
      );
    });
  });
}
