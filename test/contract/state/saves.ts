/** Automatic saves: when they come, what they hold, and that nobody has to wait for them. */

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Session } from '../../../src/index.ts';
import { eventually } from '../../support/kernels/attack-code.ts';
import { type Open, scratchFolder } from '../../support/kernels/session.ts';
import { evaluate, residents } from '../../support/kernels/state.ts';
import { lacks } from '../../support/kernels/unsupported.ts';
import { everything } from '../../support/run/depth.ts';

/** Nothing is saved but what the test saves. */
const NEVER = 3_600_000;

export function savesContract(open: Open, templated: boolean): void {
  describe('automatic saves', () => {
    const automatic = async (session: Session) => (await session.checkpoints()).filter((one) => one.automatic);

    it('are made some time after the last cell', async () => {
      await using session = await open({ saveAfterMs: 0 });
      const events = session.background();
      await session.run('x = 1');
      for await (const event of events) {
        expect(event).toMatchObject({ type: 'saved', variables: 1, lost: [] });
        break;
      }
      const [save] = await automatic(session);
      expect(save).toMatchObject({ kind: 'durable', automatic: true, saved: ['x'], execution: 1 });
      expect(save?.name).toBeUndefined();
      await session.run('import os; os._exit(1)');
      expect(await session.run('x')).toMatchObject({ value: 1, recovered: { restored: ['x'] } });
    });

    it('are also made after a rollback, a reset and a restore', async () => {
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

    it('are not made while nothing has changed', async () => {
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

    it('are kept: the last two, and no more', async () => {
      await using session = await open({ saveAfterMs: NEVER });
      for (let n = 1; n <= 5; n++) {
        await session.run(`x = ${n}`);
        await session.save();
      }
      expect((await automatic(session)).map(({ execution }) => execution)).toEqual([4, 5]);
    });

    it('do not delay the cells that arrive during a save', async () => {
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

    it('that are being written when the session is closed or hibernated are not lost', async () => {
      const dataDir = await scratchFolder();
      for (const end of ['close', 'hibernate'] as const) {
        const session = await open({ dataDir, saveAfterMs: NEVER });
        await session.run(`word = ${JSON.stringify(end)}; block = bytes(8 << 20)`);
        const saving = session.save().catch(() => {}); // it may be overtaken
        await session[end]();
        await saving;
        if (end === 'hibernate') {
          expect(await session.run('word')).toMatchObject({ value: end, resumed: {} });
          await session.close();
        }
        await using again = await open({ dataDir });
        expect(await again.run('word')).toMatchObject({ value: end, resumed: { restored: ['word', 'block'] } });
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
        expect(await again.run('n')).toMatchObject({ value: n, resumed: {} });
        await again.close();
      }
    });

    it('do not delay restoring, in any phase', async () => {
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

    it('work while threads run, without delaying the next cell', async () => {
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

    it('are not made without `persist`, and then there is no lock', async () => {
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
      expect(result.resumed).toBeUndefined();
    });
  });
}
