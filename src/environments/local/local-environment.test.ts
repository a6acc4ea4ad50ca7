import { accessSync, constants, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { runs } from '../../../test/support/processes/zombie.ts';
import { ownGroup } from '../../sandbox/process-tree.ts';
import { LocalEnvironment } from './local-environment.ts';

/** Starts a program that has nothing in common with this one: no parent, group, session or variable. Prints its pid. */
const ORPHAN = `
import os
if os.fork() == 0:
    os.setsid()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        devnull = os.open("/dev/null", os.O_RDWR)
        for to in (0, 1, 2): os.dup2(devnull, to)
        os.execve("/bin/sleep", ["sleep", "600"], {})
    print(pid, flush=True)
    os._exit(0)
os.wait()
`;

let folder: string;
let environment: LocalEnvironment;
const left: number[] = [];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'cella-local-'));
  const [workspace, home, app] = [join(folder, 'workspace'), join(folder, 'home'), join(folder, 'app')];
  for (const path of [workspace, home, app]) mkdirSync(path);
  environment = await LocalEnvironment.create({ kind: 'local', workspace, home, app });
});
afterEach(async () => {
  await environment.terminate();
  for (const pid of left.splice(0).filter(runs)) process.kill(pid, 'SIGKILL');
  rmSync(folder, { recursive: true });
});

async function pidFrom(argv: readonly string[]): Promise<number> {
  const { stdout, exited } = await environment.exec(argv);
  const pid = Number((await text(stdout)).trim());
  left.push(pid);
  expect(pid).toBeGreaterThan(1);
  await exited;
  return pid;
}

/** Usually only root may create control groups. */
function canMakeGroups(): boolean {
  try {
    accessSync(ownGroup() ?? '', constants.W_OK);
    return true;
  } catch {
    return false;
  }
}

describe.runIf(canMakeGroups())('with control groups', () => {
  test('a process that has left its parent, group and session ends with its program', async () => {
    const pid = await pidFrom(['python3', '-c', ORPHAN]);
    await expect.poll(() => runs(pid)).toBe(false);
  });

  test('a runner finds it too at the end of a turn', async () => {
    const descendants = fileURLToPath(new URL('../../runner/own-process.ts', import.meta.url));
    const script = `
      const { execFileSync } = await import('node:child_process');
      const { readFileSync } = await import('node:fs');
      const { killSubtree } = await import(${JSON.stringify(descendants)});
      const runs = (pid) => {
        try { return !/^State:\\tZ/m.test(readFileSync('/proc/' + pid + '/status', 'utf8')); } catch { return false; }
      };
      const pid = execFileSync('python3', ['-c', ${JSON.stringify(ORPHAN)}], { encoding: 'utf8' }).trim();
      if (!runs(pid)) throw new Error('it has not begun');
      const ended = await killSubtree(process.pid, new Set());
      console.log(ended && !runs(pid) ? pid : -1);
    `;
    await pidFrom([process.execPath, '--input-type=module', '-e', script]);
  });
});
