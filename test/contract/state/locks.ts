import { describe, expect, it } from 'vitest';
import { type Open, scratchFolder } from '../../support/kernels/session.ts';
import { evaluate } from '../../support/kernels/state.ts';
import { RemoteHost } from '../../support/kernels/state-hosts.ts';

export function agentKeyContract(open: Open): void {
  describe('an agent key', () => {
    it('is KEY_BUSY for a second session in the same process, and free after the first is closed', async () => {
      const dataDir = await scratchFolder();
      const before = Date.now();
      const first = await open({ dataDir, agentKey: 'a' });
      const failure = await open({ dataDir, agentKey: 'a' }).catch((error) => error);
      expect(failure).toMatchObject({ code: 'KEY_BUSY', details: { pid: process.pid } });
      expect(failure.details.since).toBeGreaterThanOrEqual(before);
      expect(failure.details.since).toBeLessThanOrEqual(Date.now());
      await using _other = await open({ dataDir, agentKey: 'b' });
      expect(await evaluate(first, '1')).toBe(1);
      await first.close();
      await using again = await open({ dataDir, agentKey: 'a' });
      expect(await evaluate(again, '1')).toBe(1);
    });

    it('is KEY_BUSY for another process, and free when the owner ends or is killed', async () => {
      const dataDir = await scratchFolder();
      for (const how of ['kill', 'end'] as const) {
        await using host = new RemoteHost();
        await host.open({ dataDir });
        await host.run('x = 1');
        await host.call('save');
        await expect(open({ dataDir })).rejects.toMatchObject({
          code: 'KEY_BUSY',
          details: { pid: host.pid, since: expect.any(Number) },
          message: expect.stringContaining(String(host.pid)),
        });
        await host[how]();
        await using session = await open({ dataDir });
        expect(await session.run('x')).toMatchObject({ value: 1, resumed: {} });
        await using late = new RemoteHost();
        await expect(late.open({ dataDir })).rejects.toMatchObject({
          code: 'KEY_BUSY',
          details: { pid: process.pid },
        });
        await session.close();
      }
    });

    it('stays locked while its kernel is hibernated or dead', async () => {
      const dataDir = await scratchFolder();
      await using session = await open({ dataDir });
      await session.run('x = 1');
      await session.hibernate();
      await expect(open({ dataDir })).rejects.toMatchObject({ code: 'KEY_BUSY' });
      await session.run('import os; os._exit(1)');
      await expect(open({ dataDir })).rejects.toMatchObject({ code: 'KEY_BUSY' });
    });

    it('is free again if the session could not be opened', async () => {
      const dataDir = await scratchFolder();
      await expect(open({ dataDir, preload: ['no_such_module_here'] })).rejects.toMatchObject({
        code: 'INVALID_OPTIONS',
      });
      await using session = await open({ dataDir });
      expect(await evaluate(session, '1')).toBe(1);
    });

    it('is given to exactly one of many concurrent callers', async () => {
      const dataDir = await scratchFolder();
      const asked = await Promise.allSettled(Array.from({ length: 6 }, () => open({ dataDir })));
      const got = asked.filter(({ status }) => status === 'fulfilled');
      const refused = asked.flatMap((one) => (one.status === 'rejected' ? [one.reason.code] : []));
      expect([got.length, refused]).toEqual([1, Array.from({ length: 5 }, () => 'KEY_BUSY')]);
    });
  });
}
