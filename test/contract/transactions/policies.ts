/** Which policy keeps the changes of a cell and which takes them back, and that a transaction costs and disturbs nothing else. */

import { describe, expect, it } from 'vitest';
import type { ExecuteOptions } from '../../../src/index.ts';
import { eventually } from '../../support/kernels/attack-code.ts';
import { type Open, scratchFolder } from '../../support/kernels/session.ts';
import { evaluate, residents } from '../../support/kernels/state.ts';
import { LOOK, type Policy } from '../../support/kernels/transactions.ts';
import { lacks } from '../../support/kernels/unsupported.ts';

export function policiesContract(open: Open): void {
  describe('a transaction', () => {
    const outcomes: [policy: Policy, succeeds: boolean, transaction: string | undefined, value: number][] = [
      ['commit_always', true, undefined, 20],
      ['commit_always', false, undefined, 20],
      ['commit_on_success', true, 'committed', 20],
      ['commit_on_success', false, 'rolled_back', 10],
      ['rollback_on_failure', true, 'committed', 20],
      ['rollback_on_failure', false, 'rolled_back', 10],
      ['rollback_always', true, 'rolled_back', 10],
      ['rollback_always', false, 'rolled_back', 10],
      ['explicit', true, 'open', 20],
      ['explicit', false, 'open', 20],
    ];
    it.each(outcomes)('with %s, if the cell succeeds (%s), is reported as %s and leaves x at %i', async (...row) => {
      const [policy, succeeds, told, value] = row;
      await using session = await open();
      await session.run('x = 10');
      const code = `x = 20; y = 30${succeeds ? '' : '; raise ValueError'}`;
      const { status, transaction } = await session.run(code, { transaction: policy });
      expect({ status, transaction }).toEqual({ status: succeeds ? 'ok' : 'error', transaction: told });
      if (policy === 'explicit') await session.commit();
      expect(await evaluate(session, LOOK)).toEqual([value, value === 20]);
    });

    it('uses the policy of the session, unless the cell sets its own', async () => {
      await using session = await open({ transaction: 'rollback_always' });
      expect(await session.run('x = 1')).toMatchObject({ transaction: 'rolled_back' });
      expect((await session.run('"x" in dir()')).value).toBe(false);
      expect((await session.run('x = 1', { transaction: 'commit_always' })).transaction).toBeUndefined();
      expect((await session.run('x')).value).toBe(1);
    });

    it('with an unknown policy is refused, and nothing runs', async () => {
      await using session = await open();
      const options = { transaction: 'perhaps' } as unknown as ExecuteOptions;
      await expect(session.run('x = 1', options)).rejects.toMatchObject({ code: 'INVALID_OPTIONS' });
      await expect(open({ transaction: 'perhaps' as Policy })).rejects.toMatchObject({ code: 'INVALID_OPTIONS' });
      expect(await evaluate(session, '"x" in dir()')).toBe(false);
    });

    it('that is a dry run still returns its value, output and displays', async () => {
      await using session = await open();
      const code = 'import sys\nprint("out")\nprint("err", file=sys.stderr)\ndisplay("shown")\nx = [1, 2]\nx';
      const result = await session.run(code, { transaction: 'rollback_always' });
      expect(result).toMatchObject({ transaction: 'rolled_back', value: [1, 2], stdout: 'out\n', stderr: 'err\n' });
      expect(result.displays).toHaveLength(1);
      expect(await evaluate(session, '"x" in dir()')).toBe(false);
    });

    it('does not undo the cell’s effects outside of its kernel', async () => {
      await using session = await open();
      await session.run('open("file", "w").write("written"); x = 1', { transaction: 'rollback_always' });
      expect(await evaluate(session, '[open("file").read(), "x" in dir()]')).toEqual(['written', false]);
    });

    it('is in the history like any other cell, and cells keep their numbers', async () => {
      await using session = await open();
      await session.run('1');
      await session.run('2', { transaction: 'rollback_always' });
      expect(await session.run('3')).toMatchObject({ execution: 3, value: 3 });
      expect((await session.history()).map(({ execution, status }) => [execution, status])).toEqual([
        [1, 'ok'],
        [2, 'ok'],
        [3, 'ok'],
      ]);
    });

    it('leaves no snapshot behind, however often and however it ends', async () => {
      await using session = await open();
      if (await lacks(session, 'subprocesses')) return;
      await session.run('x = 0');
      expect(residents(session)).toHaveLength(1);
      for (let round = 1; round <= 70; round++) {
        const options = { transaction: round % 2 ? 'rollback_always' : 'commit_on_success' } as const;
        expect(await session.run('x += 1', options)).toMatchObject({ status: 'ok' });
      }
      expect(await evaluate(session, 'x')).toBe(35);
      await eventually(
        () => residents(session).length,
        (count) => count === 1,
        5000,
      );
    });

    it('of many queued cells is in their order', async () => {
      await using session = await open();
      await session.run('seen = []');
      const runs = Array.from({ length: 20 }, (_, n) =>
        session.run(`seen.append(${n})`, { transaction: n % 2 ? 'rollback_always' : 'commit_on_success' }),
      );
      await Promise.all(runs);
      expect(await evaluate(session, 'seen')).toEqual(Array.from({ length: 10 }, (_, n) => 2 * n));
    });

    it('of one session does not affect another', async () => {
      const dataDir = await scratchFolder();
      await using one = await open({ dataDir, agentKey: 'one' });
      await using two = await open({ dataDir, agentKey: 'two' });
      await Promise.all([one.run('x = 1'), two.run('x = 1')]);
      await Promise.all([one.run('x = 2', { transaction: 'rollback_always' }), two.run('x = 2')]);
      expect([await evaluate(one, 'x'), await evaluate(two, 'x')]).toEqual([1, 2]);
    });
  });
}
