/** An installer on a leash: it ends with this process, however that ends, and pip starts no other program. */

import type { Installer, Job } from './installer.ts';

/**
 * Runs as the installer's user, sets the limits, and becomes the installer. pip is told to take wheels only, but builds
 * what a wheel names by URL all the same: where it cannot fork, nothing is built, and no code of a package runs.
 */
const PROGRAM = `
import ctypes, os, resource, signal, sys
host, starts_programs, program = int(sys.argv[1]), sys.argv[2], sys.argv[3]
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)
    if os.getppid() != host:
        sys.exit("the host has ended")
if starts_programs == "no":
    resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
os.execv(program, sys.argv[3:])
`;

/** `python` is one that the installer's user can run. */
export function tied(installer: Installer, python: string): Installer {
  const { command, startsPrograms } = installer;
  const before = ['-I', '-S', '-c', PROGRAM, String(process.pid), startsPrograms ? 'yes' : 'no', command];
  return { ...installer, command: python, args: (job: Job) => [...before, ...installer.args(job)] };
}
