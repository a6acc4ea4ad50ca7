/** Threads, which no copy of a kernel would have: a transaction says so before its cell runs. */

import { describe, expect, it } from 'vitest';
import type { Open } from '../../support/kernels/session.ts';
import { evaluate } from '../../support/kernels/state.ts';
import type { Policy } from '../../support/kernels/transactions.ts';
import { lacks } from '../../support/kernels/unsupported.ts';

export function threadsContract(open: Open): void {
  const start =
    'import threading\ngo = threading.Event()\nt = threading.Thread(target=go.wait, name="my-worker")\nt.start()';

  describe('a running thread', () => {
    it.each<Policy>(['rollback_on_failure', 'commit_on_success', 'rollback_always', 'explicit'])(
      'makes %s fail with FORK_UNSAFE and its name before the cell runs, until it has ended',
      async (transaction) => {
        await using session = await open();
        if (await lacks(session, 'threads')) return;
        await session.run(`x = 10\n${start}`);
        const code = 'x = 20\nopen("ran", "w").close()';
        await expect(session.run(code, { transaction })).rejects.toMatchObject({
          code: 'FORK_UNSAFE',
          message: expect.stringContaining('my-worker'),
        });
        expect(await evaluate(session, 'import os\n[x, os.path.exists("ran")]')).toEqual([10, false]);
        expect((await session.run('go.set(); t.join()')).status).toBe('ok');
        const after = await session.run(`${code}\nraise ValueError`, { transaction });
        expect(after.status).toBe('error');
        if (transaction === 'explicit') await session.rollback();
        expect(await evaluate(session, '[x, os.path.exists("ran")]')).toEqual([10, true]);
      },
    );

    it('is named in the error, and also prevents checkpoints and forks', async () => {
      await using session = await open();
      if (await lacks(session, 'threads')) return;
      await session.run(`${start}\nthreading.Timer(1000, print).start()\nthreading.enumerate()[-1].name = "my-timer"`);
      const unsafe = { code: 'FORK_UNSAFE', message: expect.stringMatching(/my-worker, my-timer/) };
      await expect(session.checkpoint()).rejects.toMatchObject(unsafe);
      await expect(session.fork({ agentKey: 'other' })).rejects.toMatchObject(unsafe);
      expect(await session.checkpoints()).toEqual([]);
      await session.run(
        'go.set(); threading.enumerate()[-1].cancel()\nfor one in threading.enumerate()[1:]: one.join()',
      );
      expect(await session.checkpoint()).toMatchObject({ kind: 'live' });
    });

    it('does not prevent saves', async () => {
      await using session = await open();
      if (await lacks(session, 'threads')) return;
      await session.run(`x = 10\n${start}`);
      await session.save();
      const durable = await session.checkpoint({ name: 'with a thread', durable: true });
      expect(durable.saved).toContain('x');
      await session.run('x = 20; go.set(); t.join()');
      await session.restore('with a thread');
      expect(await evaluate(session, 'x')).toBe(10);
    });

    it('that ended in the cell before has no effect', async () => {
      await using session = await open();
      if (await lacks(session, 'threads')) return;
      await session.run('import threading\nx = 0');
      for (let round = 0; round < 20; round++) {
        await session.run('t = threading.Thread(target=int); t.start(); t.join()');
        const { transaction } = await session.run('x = 1', { transaction: 'rollback_always' });
        expect(transaction).toBe('rolled_back');
      }
      expect(await evaluate(session, 'x')).toBe(0);
    });

    it('and was started by a rolled-back cell is gone', async () => {
      await using session = await open();
      if (await lacks(session, 'threads')) return;
      await session.run('x = 10');
      const result = await session.run(`x = 20\n${start}`, { transaction: 'rollback_always' });
      expect(result).toMatchObject({ status: 'ok', transaction: 'rolled_back' });
      expect(await evaluate(session, 'import threading\n[x, threading.active_count()]')).toEqual([10, 1]);
      expect((await session.run('x = 30', { transaction: 'rollback_always' })).transaction).toBe('rolled_back');
    });
  });
}
