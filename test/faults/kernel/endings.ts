/** However a host, a template or a kernel ends: what hangs on it ends too, and the next cell works. */

import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { eventually } from '../../support/kernels/attack-code.ts';
import { shortestMs } from '../../support/kernels/enough-time.ts';
import { startHost, untilPrinted } from '../../support/kernels/host-processes.ts';
import { type Open, runUntilReady, scratchFolder } from '../../support/kernels/session.ts';
import { descendants, type Process, processes, templateAbove, templatesOf } from '../../support/processes/processes.ts';

const GONE_MS = 30_000;
const TOLD_MS = 1000;

/** A child, a child of its own session, and a cell that never ends. */
const BUSY = `
import os, subprocess
subprocess.Popen(['sleep', '3600'])
subprocess.Popen(['sleep', '3600'], start_new_session=True)
if os.fork() == 0:
    os.setsid()
    while True: pass
print('ready', flush=True)
while True: pass`;

export function endings(open: Open): void {
  describe('the host', () => hostEnds());
  describe('processes of a sandbox', () => processesEnd(open));
}

/** Of those processes, the ones that still run the same command. */
const left = (before: readonly Process[]): Process[] =>
  processes().filter((one) => before.some(({ pid, command }) => pid === one.pid && command === one.command));

function controlGroups(template: number): string[] {
  // Groups of others come and go meanwhile.
  const argv = ['/sys/fs/cgroup', '-ignore_readdir_race', '-maxdepth', '8', '-type', 'd', '-name', `cella-${template}`];
  const found = execFileSync('find', argv, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
  return found.split('\n').filter(Boolean);
}

/** A template with a sandbox has a process that makes networks ahead, and a sandbox that it has begun ahead. */
const AHEAD = 2;

function hostEnds(): void {
  test.each(['SIGKILL', 'SIGTERM', 'SIGINT'] as const)(
    'that ends by %s during a cell leaves no process, control group or folder',
    async (signal) => {
      const folder = await scratchFolder();
      const tmpDir = join(folder, 'tmp');
      mkdirSync(tmpDir);
      const host = startHost({ sessions: [{ dataDir: join(folder, 'data') }], code: BUSY }, { tmpDir });
      await untilPrinted(host, 'ready');
      // Template, what it has ahead, pid 1, kernel, two that sleep and one that spins.
      const before = await eventually(
        () => descendants(host.pid ?? 0),
        (some) => some.length === 6 + AHEAD,
        GONE_MS,
      );
      const [template] = templatesOf(host.pid ?? 0);
      expect(before.filter(({ command }) => command.includes('cella_kernel'))).toHaveLength(4 + AHEAD);
      const ended = once(host, 'exit');
      host.kill(signal);
      await ended;
      await eventually(
        () => left(before),
        (some) => some.length === 0,
        GONE_MS,
      );
      expect(controlGroups(template?.pid ?? 0)).toEqual([]);
      expect(readdirSync(tmpDir)).toEqual([]);
    },
  );

  test('without a sandbox, kernels and their child processes end with it as well', async () => {
    const folder = await scratchFolder();
    const host = startHost({ sessions: [{ dataDir: folder, sandbox: 'off' }], code: BUSY });
    await untilPrinted(host, 'ready');
    const before = descendants(host.pid ?? 0);
    expect(before).toHaveLength(6);
    const ended = once(host, 'exit');
    host.kill('SIGKILL');
    await ended;
    await eventually(
      () => left(before),
      (some) => some.length === 0,
      GONE_MS,
    );
  });
}

function processesEnd(open: Open): void {
  const victims: [name: string, find: (session: { pid: number }) => number, how: object][] = [
    ['the template', ({ pid }) => templateAbove(pid), { code: 'KERNEL_DIED' }],
    ['pid 1 of the sandbox', ({ pid }) => pid, { code: 'KERNEL_DIED' }],
    ['the kernel', ({ pid }) => descendants(pid)[0]?.pid ?? 0, { code: 'KERNEL_DIED', signal: 'SIGKILL' }],
  ];
  test.each(victims)(
    '%s killed from outside: reported within a second, its children gone, the next cell works',
    async (_name, find, how) => {
      const session = await open();
      const toldMs = await shortestMs(TOLD_MS, async () => {
        const { result } = await runUntilReady(session, "print('ready', flush=True)\nwhile True: pass");
        const running = descendants(session.pid);
        const before = performance.now();
        process.kill(find(session), 'SIGKILL');
        expect(await result).toMatchObject({ status: 'died', death: how });
        const took = performance.now() - before;
        await eventually(
          () => left(running),
          (some) => some.length === 0,
          GONE_MS,
        );
        expect(await session.run('6 * 7')).toMatchObject({ value: 42, recovered: { cause: how } });
        return took;
      });
      expect(toldMs).toBeLessThan(TOLD_MS);
    },
  );

  test('a killed template is cleaned up by the next one', async () => {
    const session = await open();
    const template = templateAbove(session.pid);
    process.kill(template, 'SIGKILL');
    await eventually(
      () => session.pid,
      (pid) => pid === 0,
      GONE_MS,
    );
    // A cell that comes before the death is known shares it, or is done a moment before.
    const again = async () => [(await session.run('6 * 7')).value, templatesOf(process.pid).length];
    await expect.poll(again, { timeout: GONE_MS }).toEqual([42, 1]);
    expect(controlGroups(template)).toEqual([]);
  });

  test('50 sessions at once, each with a child, leave no process behind', async () => {
    const dataDir = await scratchFolder();
    const keys = Array.from({ length: 50 }, (_, index) => `agent ${index}`);
    const sessions = await Promise.all(keys.map((agentKey) => open({ dataDir, agentKey })));
    const code =
      "import subprocess\nchild = subprocess.Popen(['sleep', '3600'], start_new_session=True)\nchild.poll() is None";
    const results = await Promise.all(sessions.map((session) => session.run(code)));
    expect(results.filter(({ value }) => value === true)).toHaveLength(50);
    const [template] = templatesOf(process.pid);
    await eventually(
      () => descendants(template?.pid ?? 0),
      (some) => some.length === AHEAD + 150,
      GONE_MS,
    );
    await Promise.all(sessions.map((session) => session.close()));
    await eventually(
      () => descendants(template?.pid ?? 0),
      (some) => some.length === AHEAD,
      GONE_MS,
    );
    // That of the sandbox which is nobody's yet.
    for (const path of controlGroups(template?.pid ?? 0)) {
      const groups = readdirSync(path, { withFileTypes: true }).filter((entry) => entry.isDirectory());
      expect(groups.length).toBeLessThanOrEqual(1);
    }
  });
}
