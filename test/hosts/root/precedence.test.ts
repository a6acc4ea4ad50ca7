/** Processor time: a kernel that computes for long gives way to one that computes little. Needs a root host and Linux 5.15. */

import { globSync, readFileSync, realpathSync } from 'node:fs';
import { release } from 'node:os';
import { expect, test } from 'vitest';
import { openSession } from '../../support/kernels/session.ts';
import { templatesOf } from '../../support/processes/processes.ts';

/** Beside other programs, a kernel that computes may get too little time to give way: it takes until they pause. */
const MOST_MS = 120_000;

/** For each sandbox of this process: whether it gives way. */
function whoGivesWay(): string[] {
  const templates = templatesOf(process.pid);
  const files = templates.flatMap(({ pid }) => globSync(`/sys/fs/cgroup/**/cella-${pid}/*/cpu.idle`));
  // Version 1 may show one group under several names.
  return [...new Set(files.map((file) => realpathSync(file)))].map((file) => readFileSync(file, 'utf8').trim());
}

const [major = 0, minor = 0] = release().split('.').map(Number);
const hasIdleGroups = major > 5 || (major === 5 && minor >= 15);

test.skipIf(!hasIdleGroups)(
  'a kernel that computes for long gives way to others until it stops, whichever processes and sessions it makes',
  async () => {
    const computing = await openSession();
    const other = await openSession();
    await other.run('x = 1');
    const pids = await computing.run(`
import os
pids = []
for _ in range(4):
    pids.append(os.fork())
    if pids[-1] == 0:
        os.setsid()
        while True: pass
None`);
    expect(pids.status).toBe('ok');
    const count = (word: string) => whoGivesWay().filter((one) => one === word).length;
    // There may be one more, which is prepared for the next session.
    const oneGivesWay = () => expect.poll(() => count('1') === 1 && count('0') > 0, { timeout: MOST_MS }).toBe(true);
    await oneGivesWay();
    await other.run('y = x');
    await oneGivesWay();
    await computing.run('import signal\nfor pid in pids: os.kill(pid, signal.SIGKILL), os.waitpid(pid, 0)');
    await expect.poll(() => count('1'), { timeout: MOST_MS }).toBe(0);
  },
  3 * MOST_MS,
);
