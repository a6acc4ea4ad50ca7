/** An installer that ends with this process, however that ends: nobody is left to wait for it then. */

import type { Installer, Job } from './installer.ts';

/** Asks Linux for the signal before it becomes the installer. Elsewhere an installer just runs to its end. */
const PROGRAM = `
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if os.getppid() != int(sys.argv[1]):
        sys.exit("the host has ended")
os.execv(sys.argv[2], sys.argv[2:])
`;

/** `python` is one that the installer's user can run. */
export function tied(installer: Installer, python: string): Installer {
  const { name, command } = installer;
  const before = ['-I', '-S', '-c', PROGRAM, String(process.pid), command];
  return { name, command: python, args: (job: Job) => [...before, ...installer.args(job)] };
}
