import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { expect, onTestFinished, test } from 'vitest';
import { killTree, newTreeMark } from './process-tree.ts';

/** Its first thread ends, by which the system calls it a zombie, and its second goes on and starts a program. */
const HALF_DEAD = `
import ctypes, os, subprocess, threading, time
first = threading.main_thread().native_id
def stay():
    while " Z " not in open(f"/proc/{first}/stat").read():
        time.sleep(0.001)
    child = subprocess.Popen(["sleep", "100"])
    os.write(1, b"%d %d" % (os.getpid(), child.pid))
    time.sleep(100)
threading.Thread(target=stay).start()
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)
`;

test.runIf(process.platform === 'linux')(
  'a process whose first thread has ended is found alive, and what it has started',
  async () => {
    const root = spawn('sh', ['-c', '"$@" & wait', 'sh', 'python3', '-c', HALF_DEAD], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [told] = await once(root.stdout, 'data');
    const pids = String(told).trim().split(' ').map(Number);
    onTestFinished(() => {
      for (const pid of pids.filter(runs)) process.kill(pid, 'SIGKILL');
    });
    expect(pids.map(runs)).toEqual([true, true]);
    killTree(root.pid ?? 0, newTreeMark(), { ownGroup: false });
    await expect.poll(() => pids.map(runs)).toEqual([false, false]);
  },
);

function runs(pid: number): boolean {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    return !(/^State:\tZ/m.test(status) && /^Threads:\t1$/m.test(status));
  } catch {
    return false; // it has gone
  }
}
