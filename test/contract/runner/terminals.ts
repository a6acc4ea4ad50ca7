/** Terminals of an environment, by way of its runner. */

import { expect, test } from 'vitest';
import {
  SpawnTerminal,
  TerminalExited,
  TerminalPrinted,
  TerminalTyped,
  TerminateTerminal,
} from '../../../src/protocol/runner-methods.ts';
import { RunnerTestServer } from '../../support/agents/runner.ts';
import { isAlive } from '../../support/processes/processes.ts';
import { codeOf } from '../../support/servers/rpc-pair.ts';
import type { RunnerParts } from './turns.ts';

const size = { cols: 100, rows: 30 };

function watch(server: RunnerTestServer) {
  let shown = '';
  let look = () => {};
  const exited = Promise.withResolvers<unknown>();
  server.peer
    .on(TerminalPrinted, ({ data }) => {
      shown += Buffer.from(data, 'base64');
      look();
    })
    .on(TerminalExited, exited.resolve);
  const shows = (pattern: RegExp) =>
    new Promise<RegExpExecArray>((resolve) => {
      look = () => {
        const match = pattern.exec(shown);
        if (match) resolve(match);
      };
      look();
    });
  return { exited: exited.promise, shows };
}

export function runnerTerminals(parts: RunnerParts): void {
  test('are real: they get typed input, and know their size', async () => {
    await using server = new RunnerTestServer(parts().real);
    const { shows, exited } = watch(server);
    await server.hello();
    const argv = ['/bin/sh', '-c', 'stty size; read line; echo "got $line"; exit 3'];
    await server.peer.call(SpawnTerminal, { terminal_id: 'a', cwd: '/tmp', size, argv });
    await shows(/30 100/);
    const taken = server.peer.call(SpawnTerminal, { terminal_id: 'a', cwd: '/tmp', size });
    expect(await codeOf(taken)).toBe('NAME_TAKEN');
    await server.peer.notify(TerminalTyped, { terminal_id: 'a', data: Buffer.from('hello\n').toString('base64') });
    await shows(/got hello/);
    expect(await exited).toEqual({ terminal_id: 'a', code: 3 });
  });

  test('that cannot be opened are reported, and the runner continues', async () => {
    await using server = new RunnerTestServer(parts().real);
    await server.hello();
    const nowhere = server.peer.call(SpawnTerminal, { terminal_id: 'n', cwd: '/there/is/no/such/folder', size });
    expect(await codeOf(nowhere)).toBe('CAPABILITY_MISSING');
    const { shows, exited } = watch(server);
    const argv = ['/bin/sh', '-c', 'echo here'];
    await server.peer.call(SpawnTerminal, { terminal_id: 'm', cwd: '/tmp', size, argv });
    await shows(/here/);
    expect(await exited).toEqual({ terminal_id: 'm', code: 0 });
  });

  test('are closed with the processes on them', async () => {
    await using server = new RunnerTestServer(parts().real);
    const { shows, exited } = watch(server);
    await server.hello();
    const argv = ['/bin/sh', '-c', 'trap "" HUP; sleep 1000 & echo "pid $! ready"; wait'];
    await server.peer.call(SpawnTerminal, { terminal_id: 'b', cwd: '/tmp', size, argv });
    const [, pid] = await shows(/pid (\d+) ready/);
    expect(await server.peer.call(TerminateTerminal, { terminal_id: 'b' })).toEqual({ terminated: true });
    expect(await exited).toMatchObject({ terminal_id: 'b' });
    await expect.poll(() => isAlive(Number(pid)), { timeout: 10_000 }).toBe(false);
    expect(await server.peer.call(TerminateTerminal, { terminal_id: 'b' })).toEqual({ terminated: false });
  });

  test('end when their runner is killed', async () => {
    await using server = new RunnerTestServer(parts().real);
    const { shows } = watch(server);
    await server.hello();
    const argv = ['/bin/sh', '-c', 'trap "" HUP; echo "pid $$ ready"; while :; do sleep 1; done'];
    const { pid } = await server.peer.call(SpawnTerminal, { terminal_id: 'c', cwd: '/tmp', size, argv });
    const [, shell] = await shows(/pid (\d+) ready/);
    server.child.kill('SIGKILL');
    await expect.poll(() => [pid, Number(shell)].filter(isAlive), { timeout: 20_000 }).toEqual([]);
  });
}
