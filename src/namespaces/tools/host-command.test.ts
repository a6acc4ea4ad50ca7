import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { temporaryFolder } from '../../../test/support/namespaces/tools.ts';
import { readProcessStat } from '../../lib/process-identity.ts';
import { HostCommands } from './host-command.ts';

const limits = { timeoutMs: 20_000, outputLimitBytes: 10_000 };
const host = new HostCommands();

async function until(happens: () => boolean): Promise<void> {
  while (!happens()) await new Promise((resolve) => setTimeout(resolve, 5));
}

function runs(pid: number): boolean {
  return readProcessStat(pid)?.hasEnded === false;
}

/** A child, one in another process group, and one that has lost its parent and left the session. */
const family = `
import os, subprocess, sys, time
def detached():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            note(); time.sleep(1000)
        os._exit(0)
def note():
    open(os.path.join(sys.argv[1], str(os.getpid())), 'w').close()
def child(leave):
    if os.fork() == 0:
        leave(); note(); time.sleep(1000)
detached()
child(lambda: None)
child(lambda: os.setpgid(0, 0))
child(os.setsid)
note()
while len(os.listdir(sys.argv[1])) < 5: time.sleep(0.005)
open(sys.argv[1] + '/ready', 'w').close()
if sys.argv[2] == 'stay': time.sleep(1000)
`;

describe('a program on the host', { timeout: 30_000 }, () => {
  it('sees a small environment, no input, and none of the variables of this process', async () => {
    process.env.CELLA_TEST_SECRET = 'visible';
    const { stdout } = await host.run({ argv: ['sh', '-c', 'env; cat; echo end'], env: { OWN: '1' }, ...limits });
    delete process.env.CELLA_TEST_SECRET;
    const names = stdout
      .toString()
      .split('\n')
      .map((line) => line.split('=')[0]);
    expect(names.filter((name) => !['_', 'PWD', 'SHLVL', 'OLDPWD', ''].includes(name ?? '')).sort()).toEqual(
      ['CELLA_COMMAND', 'HOME', 'LANG', 'OWN', 'PATH', 'end'].sort(),
    );
  });

  it('reports how it ended', async () => {
    expect(await host.run({ argv: ['sh', '-c', 'echo out; echo err >&2; exit 7'], ...limits })).toEqual({
      stdout: Buffer.from('out\n'),
      stderr: Buffer.from('err\n'),
      stdoutCut: 0,
      stderrCut: 0,
      exit: { code: 7 },
      timedOut: false,
    });
    expect(await host.run({ argv: ['sh', '-c', 'kill -TERM $$'], ...limits })).toMatchObject({
      exit: { signal: 'SIGTERM' },
      timedOut: false,
    });
  });

  it('keeps a limited part of each stream, and counts the rest', async () => {
    const script = 'head -c 5000000 /dev/zero; head -c 2000000 /dev/zero >&2';
    const result = await host.run({ argv: ['sh', '-c', script], ...limits });
    expect([result.stdout.length, result.stdoutCut, result.stderr.length, result.stderrCut]).toEqual([
      10_000, 4_990_000, 10_000, 1_990_000,
    ]);
  });

  it.each([
    ['is missing', 'no-such-program', /program does not exist/],
    ['is a folder', '/tmp', /could not be started/],
    ['has a NUL in its name', 'a\0b', /could not be started/],
    ['has a name that is too long', 'x'.repeat(3_000_000), /could not be started/],
  ])('that %s cannot be started', async (_name, program, message) => {
    await expect(host.run({ argv: [program], ...limits })).rejects.toMatchObject({
      code: 'TOOL_FAILED',
      message: expect.stringMatching(message),
    });
  });

  const run = (folder: string, then: 'stay' | 'leave', more = {}) =>
    host.run({ argv: ['python3', '-c', family, folder, then], ...limits, ...more });
  const started = (folder: string) => readdirSync(folder).map(Number).filter(Number.isInteger);

  it('ends with everything that it has started, at its timeout', async () => {
    using folder = temporaryFolder();
    expect(await run(folder.path, 'stay', { timeoutMs: 700 })).toMatchObject({
      timedOut: true,
      exit: { signal: 'SIGKILL' },
    });
    await until(() => started(folder.path).every((pid) => !runs(pid)));
  });

  it('ends with everything that it has started, when the caller stops', async () => {
    using folder = temporaryFolder();
    const stop = new AbortController();
    const ended = run(folder.path, 'stay', { signal: stop.signal });
    await until(() => existsSync(join(folder.path, 'ready')));
    stop.abort();
    expect(await ended).toMatchObject({ timedOut: false, exit: { signal: 'SIGKILL' } });
    expect(started(folder.path)).toHaveLength(5);
    await until(() => started(folder.path).every((pid) => !runs(pid)));
  });

  it('ends with everything that it has started, when it ends by itself', async () => {
    using folder = temporaryFolder();
    expect(await run(folder.path, 'leave')).toMatchObject({ timedOut: false, exit: { code: 0 } });
    expect(started(folder.path)).toHaveLength(5);
    await until(() => started(folder.path).every((pid) => !runs(pid)));
  });

  it('ends with a chain of processes, each of which ends when it has started the next', async () => {
    using folder = temporaryFolder();
    const chain = `
import os, sys, time
if os.fork(): sys.exit()
for to in (1, 2): os.close(to)
while True:
    os.setsid()
    open(os.path.join(sys.argv[1], str(os.getpid())), 'w').close()
    time.sleep(0.05)
    if os.fork(): os._exit(0)
`;
    expect(await host.run({ argv: ['python3', '-c', chain, folder.path], ...limits })).toMatchObject({
      exit: { code: 0 },
    });
    expect(started(folder.path).filter(runs)).toEqual([]);
    const before = started(folder.path);
    await delay(300);
    expect(started(folder.path)).toEqual(before);
  });

  it('that was stopped before it started leaves nothing behind', async () => {
    const result = await host.run({ argv: ['sleep', '1000'], ...limits, signal: AbortSignal.abort() });
    expect(result.exit.signal).toBe('SIGKILL');
  });
});
