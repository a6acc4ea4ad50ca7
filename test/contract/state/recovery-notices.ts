import { expect, it } from 'vitest';
import type { Open } from '../../support/kernels/session.ts';

/** Nothing is saved but what the test saves. */
const NEVER = 3_600_000;

export function recoveryNoticeContract(open: Open): void {
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

  it('says that nothing was restored if nothing was ever saved', async () => {
    await using session = await open({ saveAfterMs: NEVER });
    await session.run('x = 1');
    await session.run('import os; os._exit(1)');
    const { value, recovered } = await session.run('"x" in dir()');
    expect({ value, recovered }).toMatchObject({ value: false, recovered: { restored: [], cause: { exitCode: 1 } } });
    expect(recovered?.savedAgoMs).toBeUndefined();
  });

  it('is reported by the next cell, even if that cell dies too', async () => {
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

  it('continues the count of executions', async () => {
    await using session = await open();
    await session.run('1');
    await session.run('import os; os._exit(1)');
    expect(await session.run('3')).toMatchObject({ execution: 3 });
  });
}
