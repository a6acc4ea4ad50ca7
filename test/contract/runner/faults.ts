/** Runners, daemons and agents that go, and bytes that are no messages. */

import { once } from 'node:events';
import { expect, test } from 'vitest';
import { CellaError } from '../../../src/protocol/errors.ts';
import { ReportMessage, Shutdown, SpawnTerminal } from '../../../src/protocol/runner-methods.ts';
import { startRunner, TestDaemon } from '../../support/agents/runner.ts';
import { isAlive } from '../../support/processes/processes.ts';
import { codeOf } from '../../support/servers/rpc-pair.ts';
import type { RunnerParts } from './turns.ts';

export function runnerFaults(parts: RunnerParts): void {
  test('a runner killed in mid-turn fails the prompt with RUNNER_GONE', async () => {
    await using daemon = new TestDaemon(parts().scripted);
    await daemon.hello();
    const turn = codeOf(daemon.prompt([{ say: 'here' }, { wait: true }]));
    await daemon.saying(1);
    daemon.child.kill('SIGKILL');
    expect(await turn).toBe('RUNNER_GONE');
  });

  test.each([
    ['goes', (daemon: TestDaemon) => daemon.peer.close()],
    ['sends TERM', (daemon: TestDaemon) => daemon.child.kill('SIGTERM')],
  ])('a daemon that %s takes the runner and what its agent has started along', async (_, end) => {
    await using daemon = new TestDaemon(parts().scripted);
    await daemon.hello();
    const turn = codeOf(daemon.prompt([{ start: true }, { wait: true }]));
    const pid = Number(await daemon.saying(1));
    expect(isAlive(pid)).toBe(true);
    end(daemon);
    expect(await daemon.exited).toEqual([0, null]);
    expect(await turn).toBe('RUNNER_GONE');
    await expect.poll(() => isAlive(pid), { timeout: 10_000 }).toBe(false);
  });

  test('what an agent has started ends with its turn, and a terminal does not', async () => {
    await using daemon = new TestDaemon(parts().scripted);
    await daemon.hello();
    const terminal = { terminal_id: 'term_1', cwd: '/', size: { cols: 80, rows: 24 } };
    const shown = await daemon.peer.call(SpawnTerminal, terminal);
    expect(await daemon.prompt([{ start: true }])).toMatchObject({ status: 'completed' });
    expect([isAlive(Number(daemon.said[0])), isAlive(shown.pid)]).toEqual([false, true]);
  });

  test('shutdown ends the turn that runs, then the runner', async () => {
    await using daemon = new TestDaemon(parts().scripted);
    await daemon.hello();
    const turn = daemon.prompt([{ say: 'here' }, { wait: true }]);
    await daemon.saying(1);
    await daemon.peer.call(Shutdown, { reason: 'idle' });
    expect((await turn).status).toBe('cancelled');
    expect(await daemon.exited).toEqual([0, null]);
  });

  test('an agent that does not stop holds up neither shutdown nor the end of the daemon', async () => {
    await using daemon = new TestDaemon(parts().scripted);
    await daemon.hello();
    const turn = codeOf(daemon.prompt([{ start: true }, { hang: true }]));
    const pid = Number(await daemon.saying(1));
    await daemon.peer.call(Shutdown, { grace_ms: 50 });
    expect(await turn).toBe('RUNNER_GONE');
    expect(await daemon.exited).toEqual([0, null]);
    await expect.poll(() => isAlive(pid), { timeout: 10_000 }).toBe(false);
  });

  test('a library that prints or reads does not meddle with the protocol', async () => {
    await using daemon = new TestDaemon(parts().scripted);
    await daemon.hello();
    const noise = '{"jsonrpc":"2.0","id":1,"result":{}}';
    expect(await daemon.prompt([{ print: noise }, { say: 'fine' }])).toMatchObject({ status: 'completed' });
    expect(daemon.said).toEqual(['fine']);
    expect(daemon.stderr.split(noise)).toHaveLength(3);
  });

  test('messages that the daemon refuses end the turn as failed, with its reason', async () => {
    await using daemon = new TestDaemon(parts().scripted);
    daemon.peer.handle(ReportMessage, () => {
      throw new CellaError('QUOTA_EXCEEDED', 'the log is full');
    });
    await daemon.hello();
    const outcome = await daemon.prompt([{ say: 'a' }, { flood: 10_000 }]);
    expect(outcome).toMatchObject({ status: 'failed', error: { code: 'QUOTA_EXCEEDED' } });
    expect(daemon.completions).toEqual([]);
  });

  test('lines that are no messages are answered, and enough of them end it with a non-zero code', async () => {
    const child = startRunner(parts().real, 'serve');
    const answers: string[] = [];
    child.stdout.setEncoding('utf8').on('data', (piece: string) => answers.push(piece));
    child.stdin.write(`\n\n${'\u00ff{nonsense\n'.repeat(200)}`);
    expect(await once(child, 'close')).toEqual([1, null]);
    const lines = answers.join('').trimEnd().split('\n');
    expect(lines).toHaveLength(100);
    expect(JSON.parse(lines[0] ?? '')).toMatchObject({ id: null, error: { code: -32700 } });
  });

  test('a line of 100 MB is refused at its beginning, and ends it with a non-zero code', async () => {
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
