import { describe, expect, it } from 'vitest';
import { eventually } from '../../support/kernels/attack-code.ts';
import { type Open, runUntilReady, scratchFolder } from '../../support/kernels/session.ts';
import { evaluate, reasons } from '../../support/kernels/state.ts';
import { lacks } from '../../support/kernels/unsupported.ts';
import { isAlive } from '../../support/processes/processes.ts';

export function hibernationContract(open: Open): void {
  describe('hibernation', () => {
    it('ends the kernel, and the next call restores it with its variables', async () => {
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
      const { value, resumed, recovered } = await session.run('[f(), math.floor(1.5), "live" in dir()]');
      expect(value).toEqual([[1], 1, false]);
      expect([...(resumed?.restored ?? [])].sort()).toEqual(['f', 'math', 'x']);
      expect(reasons(resumed?.lost).live).toContain('file');
      expect(resumed?.savedAgoMs).toBeGreaterThanOrEqual(0);
      expect(recovered).toBeUndefined();
      expect((await session.run('x')).resumed).toBeUndefined();
    });

    it('can be requested twice, and for a kernel that never ran anything', async () => {
      await using session = await open();
      await session.hibernate();
      await session.hibernate();
      expect(await session.run('1')).toMatchObject({ value: 1 });
      await session.run('x = 1');
      await Promise.all([session.hibernate(), session.hibernate()]);
      expect(await session.run('x')).toMatchObject({ value: 1, resumed: {} });
    });

    it('waits for running code', async () => {
      await using session = await open();
      const released = Promise.withResolvers<string>();
      const { result } = await runUntilReady(session, 'print("ready")\nx = input()', {
        onInput: () => released.promise,
      });
      const asleep = session.hibernate();
      released.resolve('answered');
      expect((await result).status).toBe('ok');
      await asleep;
      expect(await session.run('x')).toMatchObject({ value: 'answered', resumed: {} });
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

    it('is the same as closing a session and opening it again', async () => {
      const dataDir = await scratchFolder();
      const first = await open({ dataDir, agentKey: 'a' });
      await first.run('x = 1; note = [x]');
      await first.run('import random\nrandom.seed(9); random.random()');
      await first.close();
      await using second = await open({ dataDir, agentKey: 'a' });
      const { value, resumed, execution } = await second.run('[x, note, random.random()]');
      await using reference = await open();
      const drawn = await evaluate(reference, 'import random\nrandom.seed(9); random.random()\nrandom.random()');
      expect(value).toEqual([1, [1], drawn]);
      expect([...(resumed?.restored ?? [])].sort()).toEqual(['note', 'random', 'x']);
      expect(execution).toBeGreaterThan(2);
      expect((await second.history()).map(({ code }) => code)[0]).toBe('x = 1; note = [x]');
    });

    it('reports nothing if there was nothing to save', async () => {
      const dataDir = await scratchFolder();
      const first = await open({ dataDir });
      await first.close();
      await using second = await open({ dataDir });
      expect((await second.run('1')).resumed).toBeUndefined();
    });

    it('remembers a reset: cleared variables do not come back', async () => {
      const dataDir = await scratchFolder();
      const first = await open({ dataDir });
      await first.run('x = 1');
      await first.save();
      await first.reset();
      await first.close();
      await using second = await open({ dataDir });
      expect(await evaluate(second, '"x" in dir()')).toBe(false);
    });

    it('ends running code when the session is closed, and keeps the save before it', async () => {
      const dataDir = await scratchFolder();
      const first = await open({ dataDir });
      await first.run('x = 1');
      await first.save();
      const { result } = await runUntilReady(first, 'x = 2\nprint("ready", flush=True)\nwhile True: pass');
      await first.close();
      expect((await result).status).toBe('died');
      await using second = await open({ dataDir });
      expect(await second.run('x')).toMatchObject({ value: 1, resumed: {} });
    });
  });
}
