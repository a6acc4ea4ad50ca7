/** An installer has ended when its program has, whatever another process does with its pipes. */

import { expect, test } from 'vitest';
import { runInstaller } from './process.ts';

test('a process that has left the group of the installer and holds its pipes does not hold up its end', async () => {
  const began = performance.now();
  const { ending, lines } = await runInstaller({
    command: '/bin/sh',
    args: ['-c', 'setsid sleep 20 & echo "$!"'],
    identity: { root: false, uid: 0, gid: 0 } as never,
    cwd: '/',
    env: { PATH: process.env.PATH ?? '' },
    timeoutMs: 60_000,
    signal: new AbortController().signal,
  });
  expect(ending).toEqual({ kind: 'ended', code: 0, signal: null });
  expect(performance.now() - began).toBeLessThan(10_000);
  process.kill(Number(lines[0]), 'SIGKILL');
}, 30_000);
