/** A process that the system calls a zombie, and that goes on: how to begin one, and whether a process runs. */

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { onTestFinished } from 'vitest';

/** Its first thread ends, and its second goes on and starts a program. */
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

/** Below a shell, whose number is `root`; `pids` are it and what it has started. */
export async function startHalfDead(): Promise<{ readonly root: number; readonly pids: readonly number[] }> {
  const shell = spawn('sh', ['-c', '"$@" & wait', 'sh', 'python3', '-c', HALF_DEAD], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [told] = await once(shell.stdout, 'data');
  const pids = String(told).trim().split(' ').map(Number);
  onTestFinished(() => {
    for (const pid of pids.filter(runs)) process.kill(pid, 'SIGKILL');
  });
  return { root: shell.pid ?? 0, pids };
}

export function runs(pid: number): boolean {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    return !(/^State:\tZ/m.test(status) && /^Threads:\t1$/m.test(status));
  } catch {
    return false; // it has gone
  }
}
