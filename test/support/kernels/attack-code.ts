/** What attacks on a sandbox have in common: Python that tries things and tells how each ended. */

import type { Session } from '../../../src/index.ts';

/** `call` makes a system call by name; `attempt` runs an action. Both give the error's name, or `done: …`. */
export const PRELUDE = `
import ctypes, errno, os, platform, resource, socket, stat, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
COLUMN = {'x86_64': 0, 'aarch64': 1}[platform.machine()]
NUMBERS = {
    'ptrace': (101, 117), 'process_vm_readv': (310, 270), 'mount': (165, 40), 'umount2': (166, 39),
    'pivot_root': (155, 41), 'chroot': (161, 51), 'open_tree': (428, 428), 'move_mount': (429, 429),
    'fsopen': (430, 430), 'mount_setattr': (442, 442), 'unshare': (272, 97), 'setns': (308, 268),
    'clone': (56, 220), 'clone3': (435, 435), 'bpf': (321, 280), 'perf_event_open': (298, 241),
    'io_uring_setup': (425, 425), 'keyctl': (250, 219), 'add_key': (248, 217), 'userfaultfd': (323, 282),
    'open_by_handle_at': (304, 265), 'syslog': (103, 116), 'reboot': (169, 142), 'kexec_load': (246, 104),
    'init_module': (175, 105), 'swapon': (167, 224), 'sethostname': (170, 161), 'pidfd_open': (434, 434),
    'pidfd_getfd': (438, 438), 'kcmp': (312, 272), 'capset': (126, 91), 'openat2': (437, 437),
    'personality': (135, 92), 'settimeofday': (164, 170), 'fanotify_init': (300, 262), 'getpid': (39, 172),
}

def told(result):
    return errno.errorcode[ctypes.get_errno()] if result == -1 else 'done: %d' % result

def numbered(number, *arguments):
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in arguments]
    ctypes.set_errno(0)
    return told(libc.syscall(ctypes.c_long(number), *words))

def call(name, *arguments):
    return numbered(NUMBERS[name][COLUMN], *arguments)

def attempt(action, *arguments):
    try:
        return 'done: %.200r' % (action(*arguments),)
    except OSError as error:
        return errno.errorcode.get(error.errno, type(error).__name__)
    except ValueError as error:
        return 'refused: %s' % error

def read(path):
    with open(path, 'rb') as file:
        return file.read(4096)

def write(path, text=b'x'):
    with open(path, 'wb') as file:
        return file.write(text)
`;

export type Verdicts = Record<string, string>;

/** Runs code after the prelude; its last expression is a dict from what was tried to how it ended. */
export async function attempts(session: Session, code: string): Promise<Verdicts> {
  const result = await session.run(`${PRELUDE}\n${code}`, { timeoutMs: 20_000 });
  if (result.status !== 'ok') throw new Error(`${result.status}: ${result.error?.traceback ?? result.error?.message}`);
  return result.value as Verdicts;
}

/** The attempts that came through. */
export function succeeded(verdicts: Verdicts): Verdicts {
  return Object.fromEntries(Object.entries(verdicts).filter(([, how]) => how.startsWith('done')));
}

/** A Python literal of plain data. */
export const python = (data: unknown): string => `__import__('json').loads(${JSON.stringify(JSON.stringify(data))})`;

const LEAST_MS = 30_000;

/** Looks again and again until `check` holds, and gives what it gave; at the deadline it fails with the last look. */
export async function eventually<T>(look: () => T, check: (seen: T) => boolean, withinMs: number): Promise<T> {
  // What is looked at comes from other processes: a machine that is slow is no failure.
  const limitMs = Math.max(withinMs, LEAST_MS);
  const deadline = performance.now() + limitMs;
  for (;;) {
    const seen = look();
    if (check(seen)) return seen;
    if (performance.now() > deadline) throw new Error(`not within ${limitMs} ms: ${JSON.stringify(seen)}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}
