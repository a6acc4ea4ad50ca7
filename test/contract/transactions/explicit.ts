/** A transaction that the caller decides about, when its cell is over. */

import { describe, expect, it, vi } from 'vitest';
import { type Open, runUntilReady, scratchFolder } from '../../support/kernels/session.ts';
import { evaluate, kernelPid, kill, residents } from '../../support/kernels/state.ts';
import { diedWithItsPast, LOOK } from '../../support/kernels/transactions.ts';
import { lacks } from '../../support/kernels/unsupported.ts';

export function explicitContract(open: Open): void {
  const own = { transaction: 'explicit' } as const;
  const openCode = { code: 'TRANSACTION_OPEN' };
  const none = { code: 'NO_TRANSACTION' };

  describe('an explicit transaction', () => {
    it('is kept by commit()', async () => {
      await using session = await open();
      await session.run('x = 10');
      expect(await session.run('x = 20; y = 30', own)).toMatchObject({ status: 'ok', transaction: 'open' });
      await session.commit();
      expect(await evaluate(session, LOOK)).toEqual([20, true]);
      await expect(session.commit()).rejects.toMatchObject(none);
      await expect(session.rollback()).rejects.toMatchObject(none);
    });

    it('is undone by rollback()', async () => {
      await using session = await open();
      await session.run('x = 10; a = [1]');
      await session.run('x = 20; y = 30; a.append(2)', own);
      await session.rollback();
      expect(await evaluate(session, '[x, "y" in dir(), a]')).toEqual([10, false, [1]]);
      await expect(session.rollback()).rejects.toMatchObject(none);
      await expect(session.commit()).rejects.toMatchObject(none);
    });

    it('refuses further cells until it is decided, even those that were waiting', async () => {
      await using session = await open();
      await session.run('x = 10; ran = []');
      const first = session.run('x = 20', own);
      const waiting = session.run('ran.append("waiting")');
      const refused = expect(waiting).rejects.toMatchObject(openCode);
      expect((await first).transaction).toBe('open');
      await refused;
      await expect(session.run('ran.append("later")')).rejects.toMatchObject(openCode);
      await expect(session.run('ran.append("nested")', own)).rejects.toMatchObject(openCode);
      await session.commit();
      expect(await evaluate(session, '[x, ran]')).toEqual([20, []]);
    });

    it('can be inspected before it is decided', async () => {
      await using session = await open();
      await session.run('x = 10');
      await session.run('x = 20; apple = 1', own);
      expect((await session.variables()).map(({ name, preview }) => [name, preview])).toEqual(
        expect.arrayContaining([
          ['x', '20'],
          ['apple', '1'],
        ]),
      );
      expect((await session.complete('app')).matches.map(({ text }) => text)).toContain('apple');
      await session.rollback();
      expect((await session.variables()).map(({ name }) => name)).toEqual(['x']);
    });

    it('stays open if the code raises an exception, and can undo earlier changes', async () => {
      await using session = await open();
      await session.run('x = 10');
      expect(await session.run('x = 20; 1 / 0', own)).toMatchObject({ status: 'error', transaction: 'open' });
      await expect(session.run('1')).rejects.toMatchObject(openCode);
      await session.rollback();
      expect(await evaluate(session, 'x')).toBe(10);
    });

    it('stays open if the code is interrupted', async () => {
      await using session = await open();
      await session.run('x = 10');
      const { result } = await runUntilReady(session, 'x = 20\nprint("ready", flush=True)\nwhile True: pass', own);
      await session.interrupt();
      expect(await result).toMatchObject({ status: 'interrupted', transaction: 'open' });
      await session.commit();
      expect(await evaluate(session, 'x')).toBe(20);
    });

    it('can be followed by another', async () => {
      await using session = await open();
      await session.run('x = 0');
      for (let round = 1; round <= 10; round++) {
        await session.run('x += 1', own);
        await (round % 2 ? session.commit() : session.rollback());
      }
      expect(await evaluate(session, 'x')).toBe(5);
    });

    it('is decided once, with any number of concurrent callers', async () => {
      await using session = await open();
      await session.run('x = 10');
      await session.run('x = 20', own);
      const asked = await Promise.allSettled([session.rollback(), session.commit(), session.rollback()]);
      expect(asked.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected']);
      expect(await evaluate(session, 'x')).toBe(10);
    });

    it('is rolled back if its own cell dies, and nothing is left to decide', async () => {
      await using session = await open();
      await session.run('x = 10');
      const result = await session.run('x = 20\nimport os; os._exit(3)', own);
      expect(result.status).toBe('died');
      if (await diedWithItsPast(session, result)) return;
      expect(result.transaction).toBe('rolled_back');
      await expect(session.commit()).rejects.toMatchObject(none);
      expect(await evaluate(session, 'x')).toBe(10);
    });

    it('is rolled back if its kernel dies while it is open, and the next result says so', async () => {
      await using session = await open();
      if (await lacks(session, 'subprocesses')) return;
      await session.run('x = 10');
      const pid = await kernelPid(session);
      await session.run('x = 20; y = 30', own);
      kill(pid);
      // Until the death is known, a cell is kept out as before.
      const next = await vi.waitUntil(() => session.run(LOOK).catch(() => undefined), { timeout: 20_000 });
      expect(next).toMatchObject({ value: [10, false], recovered: { cause: { signal: 'SIGKILL' } } });
      await expect(session.commit()).rejects.toMatchObject(none);
    });

    it('cannot be committed once its kernel has died', async () => {
      await using session = await open();
      if (await lacks(session, 'subprocesses')) return;
      await session.run('x = 10');
      const pid = await kernelPid(session);
      await session.run('x = 20', own);
      kill(pid);
      // Nobody answers: by then the session knows.
      await session.variables().catch((error) => expect(error).toMatchObject({ code: 'KERNEL_DIED' }));
      await expect(session.commit()).rejects.toMatchObject(none);
      expect(await evaluate(session, 'x')).toBe(10);
    });

    it.each<[string, 'reset' | 'restart']>([
      ['a reset', 'reset'],
      ['a restart', 'restart'],
    ])('is ended by %s, which clears all names', async (_name, how) => {
      await using session = await open();
      await session.run('x = 10');
      await session.run('y = 30', own);
      await session[how]();
      await expect(session.commit()).rejects.toMatchObject(none);
      expect(await evaluate(session, '["x" in dir(), "y" in dir()]')).toEqual([false, false]);
    });

    it('is rolled back by hibernation', async () => {
      await using session = await open();
      await session.run('x = 10');
      await session.run('x = 20; y = 30', own);
      await session.hibernate();
      await expect(session.commit()).rejects.toMatchObject(none);
      expect(await session.run(LOOK)).toMatchObject({ value: [10, false], resumed: {} });
    });

    it('is rolled back by the end of its session', async () => {
      const dataDir = await scratchFolder();
      const session = await open({ dataDir });
      await session.run('x = 10');
      await session.run('x = 20; y = 30', own);
      await session.close();
      await using next = await open({ dataDir });
      expect(await next.run(LOOK)).toMatchObject({ value: [10, false], resumed: {} });
    });

    it('is not written by a save', async () => {
      await using session = await open();
      if (await lacks(session, 'subprocesses')) return;
      await session.run('x = 10');
      await session.save();
      const pid = await kernelPid(session);
      await session.run('x = 20', own);
      await session.save();
      const saves = (await session.checkpoints()).filter(({ automatic }) => automatic);
      expect(saves).toHaveLength(1);
      await session.rollback();
      expect(residents(session)).not.toContain(pid);
      expect(await evaluate(session, 'x')).toBe(10);
    });
  });
}
