/** Runners, servers and agents that go, and bytes that are no messages. */

import { once } from 'node:events';
import { expect, test } from 'vitest';
import { CellaError } from '../../../src/protocol/errors.ts';
import { ReportMessage, Shutdown, SpawnTerminal } from '../../../src/protocol/runner-methods.ts';
import { RunnerTestServer, startRunner } from '../../support/agents/runner.ts';
import { isAlive } from '../../support/processes/processes.ts';
import { codeOf } from '../../support/servers/rpc-pair.ts';
import type { RunnerParts } from './turns.ts';

export function runnerFaults(parts: RunnerParts): void {
  test('a runner that is killed during a turn fails the prompt with RUNNER_GONE', async () => {
    await using server = new RunnerTestServer(parts().scripted);
    await server.hello();
    const turn = codeOf(server.prompt([{ say: 'here' }, { wait: true }]));
    await server.saying(1);
    server.child.kill('SIGKILL');
    expect(await turn).toBe('RUNNER_GONE');
  });

  test.each([
    ['goes', (server: RunnerTestServer) => server.peer.close()],
    ['sends TERM', (server: RunnerTestServer) => server.child.kill('SIGTERM')],
  ])('a server that %s takes the runner and what its agent has started along', async (_, end) => {
    await using server = new RunnerTestServer(parts().scripted);
    await server.hello();
    const turn = codeOf(server.prompt([{ start: true }, { wait: true }]));
    const pid = Number(await server.saying(1));
    expect(isAlive(pid)).toBe(true);
    end(server);
    expect(await server.exited).toEqual([0, null]);
    expect(await turn).toBe('RUNNER_GONE');
    await expect.poll(() => isAlive(pid), { timeout: 10_000 }).toBe(false);
  });

  test('processes of an agent end with its turn, and terminals do not', async () => {
    await using server = new RunnerTestServer(parts().scripted);
    await server.hello();
    const terminal = { terminal_id: 'term_1', cwd: '/', size: { cols: 80, rows: 24 } };
    const shown = await server.peer.call(SpawnTerminal, terminal);
    expect(await server.prompt([{ start: true }])).toMatchObject({ status: 'completed' });
    expect([isAlive(Number(server.said[0])), isAlive(shown.pid)]).toEqual([false, true]);
  });

  test('shutdown ends the running turn, then the runner', async () => {
    await using server = new RunnerTestServer(parts().scripted);
    await server.hello();
    const turn = server.prompt([{ say: 'here' }, { wait: true }]);
    await server.saying(1);
    await server.peer.call(Shutdown, { reason: 'idle' });
    expect((await turn).status).toBe('cancelled');
    expect(await server.exited).toEqual([0, null]);
  });

  test('an agent that does not stop delays neither shutdown nor the end of the server', async () => {
    await using server = new RunnerTestServer(parts().scripted);
    await server.hello();
    const turn = codeOf(server.prompt([{ start: true }, { hang: true }]));
    const pid = Number(await server.saying(1));
    await server.peer.call(Shutdown, { grace_ms: 50 });
    expect(await turn).toBe('RUNNER_GONE');
    expect(await server.exited).toEqual([0, null]);
    await expect.poll(() => isAlive(pid), { timeout: 10_000 }).toBe(false);
  });

  test('a library that prints or reads does not disturb the protocol', async () => {
    await using server = new RunnerTestServer(parts().scripted);
    await server.hello();
    const noise = '{"jsonrpc":"2.0","id":1,"result":{}}';
    expect(await server.prompt([{ print: noise }, { say: 'fine' }])).toMatchObject({ status: 'completed' });
    expect(server.said).toEqual(['fine']);
    expect(server.stderr.split(noise)).toHaveLength(3);
  });

  test('refused messages end the turn as failed, with the reason', async () => {
    await using server = new RunnerTestServer(parts().scripted);
    server.peer.handle(ReportMessage, () => {
      throw new CellaError('QUOTA_EXCEEDED', 'the log is full');
    });
    await server.hello();
    const outcome = await server.prompt([{ say: 'a' }, { flood: 10_000 }]);
    expect(outcome).toMatchObject({ status: 'failed', error: { code: 'QUOTA_EXCEEDED' } });
    expect(server.completions).toEqual([]);
  });

  test('invalid lines get an error, and too many of them end the runner with a non-zero code', async () => {
    const child = startRunner(parts().real, 'serve');
    const answers: string[] = [];
    child.stdout.setEncoding('utf8').on('data', (piece: string) => answers.push(piece));
    child.stdin.write(`\n\n${'\u00ff{nonsense\n'.repeat(200)}`);
    expect(await once(child, 'close')).toEqual([1, null]);
    const lines = answers.join('').trimEnd().split('\n');
    expect(lines).toHaveLength(100);
    expect(JSON.parse(lines[0] ?? '')).toMatchObject({ id: null, error: { code: -32700 } });
  });

  test('a line of 100 MB is refused early, and ends the runner with a non-zero code', async () => {
    const child = startRunner(parts().real, 'serve');
    const answers: string[] = [];
    child.stdout.setEncoding('utf8').on('data', (piece: string) => answers.push(piece));
    const closed = once(child, 'close');
    const piece = Buffer.alloc(1024 * 1024, 'x');
    let sent = 0;
    for (; sent < 100 && child.stdin.writable; sent += 1) {
      if (!child.stdin.write(piece)) await Promise.race([once(child.stdin, 'drain'), closed]).catch(() => {});
    }
    expect(await closed).toEqual([1, null]);
    expect(sent).toBeLessThan(100);
    expect(JSON.parse(answers.join(''))).toMatchObject({ id: null, error: { data: { code: 'TOO_LARGE' } } });
  });
}
