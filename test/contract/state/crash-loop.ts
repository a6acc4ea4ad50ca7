import { expect, it } from 'vitest';
import { type Open, scratchFolder } from '../../support/kernels/session.ts';

/** Nothing is saved but what the test saves. */
const NEVER = 3_600_000;

export function crashLoopContract(open: Open): void {
  it('gives up after three times without a finished cell, and reset() fixes it', async () => {
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

  it('starts counting again after every finished cell', async () => {
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
    expect(await again.run('x')).toMatchObject({ value: 1, resumed: {} });
  });
}
