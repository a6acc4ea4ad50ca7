/** Descriptors that a kernel or a program was left with: none leads out. */

import { once } from 'node:events';
import { connect } from 'node:net';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { attempts, succeeded } from '../support/kernels/attack-code.ts';
import type { Open } from '../support/kernels/session.ts';
import { templatesOf } from '../support/processes/processes.ts';

/** What each descriptor of the kernel is. */
const DESCRIPTORS = `
kinds = {}
for fd in range(resource.getrlimit(resource.RLIMIT_NOFILE)[0]):
    try:
        mode = os.fstat(fd).st_mode
    except OSError:
        continue
    path = os.readlink('/proc/self/fd/%d' % fd)
    null = stat.S_ISCHR(mode) and path.endswith('/null')
    kinds[str(fd)] = 'null' if null else 'pipe' if stat.S_ISFIFO(mode) else 'socket' if stat.S_ISSOCK(mode) else path
kinds`;

export function descriptorsOfAKernel(open: Open): void {
  test('no descriptor of the kernel leads to a file or folder of the host', async () => {
    const kinds = Object.values(await attempts(await open(), DESCRIPTORS));
    expect(kinds.filter((kind) => !['null', 'pipe', 'socket'].includes(kind))).toEqual([]);
    // Its connection, and the gate where it tells pid 1 of its forks.
    expect(kinds.filter((kind) => kind === 'socket')).toHaveLength(2);
  });
}

export function descriptorsOfABusyTemplate(open: Open): void {
  test('a kernel of a busy template has no descriptor of the template', async () => {
    const first = await attempts(await open(), DESCRIPTORS);
    const [template] = templatesOf(process.pid);
    const busy = Array.from({ length: 300 }, () => connect(join(template?.folder ?? '', 'template')));
    onTestFinished(() => {
      for (const socket of busy) socket.destroy();
    });
    await Promise.all(busy.map((socket) => once(socket, 'connect')));
    expect(await attempts(await open(), DESCRIPTORS)).toEqual(first);
  });
}

export function descriptorsOfAProgram(open: Open): void {
  test('a program has only its three standard descriptors', async () => {
    expect(await attempts(await open(), DESCRIPTORS)).toEqual({ 0: 'null', 1: 'pipe', 2: 'pipe' });
  });
}

export function descriptorsOnATerminal(open: Open): void {
  test('a program on a terminal has only its three standard descriptors, and sees no other terminal', async () => {
    const session = await open();
    const all = { 0: '/dev/pts/0', 1: '/dev/pts/0', 2: '/dev/pts/0' };
    expect(await attempts(session, DESCRIPTORS)).toEqual(all);
    expect(await attempts(session, "sorted(os.listdir('/dev/pts'))")).toEqual(['0', 'ptmx']);
    expect(succeeded(await attempts(session, "{'console': attempt(os.open, '/dev/console', os.O_RDWR)}"))).toEqual({});
  });
}
