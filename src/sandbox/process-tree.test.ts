import { expect, test } from 'vitest';
import { runs, startHalfDead } from '../../test/support/processes/zombie.ts';
import { killTree, newProcessTag } from './process-tree.ts';

test.runIf(process.platform === 'linux')(
  'a process whose first thread has ended is found, and so are its child processes',
  async () => {
    const tag = newProcessTag();
    const { root, pids } = await startHalfDead();
    expect(pids.map(runs)).toEqual([true, true]);
    await killTree(root, tag, { ownGroup: false });
    expect(pids.map(runs)).toEqual([false, false]);
  },
);
