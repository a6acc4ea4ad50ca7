import { expect, test } from 'vitest';
import { runs, startHalfDead } from '../../test/support/processes/zombie.ts';
import { killSubtree } from './own-process.ts';

test.runIf(process.platform === 'linux')(
  'a process whose first thread has ended is found, and so are its child processes',
  async () => {
    const { root, pids } = await startHalfDead();
    expect(pids.map(runs)).toEqual([true, true]);
    expect(await killSubtree(root, new Set())).toBe(true);
    await expect.poll(() => pids.map(runs)).toEqual([false, false]);
  },
);
