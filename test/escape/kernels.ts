/** Ways to other kernels: to see them, to end them, and to take what their sandboxes live on. */

import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { CellaError } from '../../src/index.ts';
import { attempts, succeeded } from '../support/kernels/attack-code.ts';
import type { Open } from '../support/kernels/session.ts';

export function anotherKernel(open: Open): void {
  test('its processes, scratch, shared memory and sockets cannot be seen', async () => {
    const one = await open({ agentKey: 'one' });
    const prepared = await one.run(`
import socket, subprocess, os
from multiprocessing import shared_memory
sleeper = subprocess.Popen(['sleep', '3600'])
open('/tmp/mine', 'w').write('hush')
open('/dev/shm/mine', 'w').write('hush')
memory = shared_memory.SharedMemory('cella-segment', create=True, size=64)
server = socket.socket(socket.AF_UNIX)
server.bind(b'\\0cella-test-abstract')
server.listen()
tcp = socket.create_server(('127.0.0.1', 0))
tcp.getsockname()[1], sleeper.pid`);
    const [port, pid] = prepared.value as [number, number];
    const two = await open({ agentKey: 'two' });
    const verdicts = await attempts(
      two,
      `
verdicts = {path: attempt(read, path) for path in ('/tmp/mine', '/dev/shm/mine', '/dev/shm/cella-segment', '/proc/${pid}/environ')}
with socket.socket(socket.AF_UNIX) as unix:
    verdicts['abstract'] = attempt(unix.connect, b'\\0cella-test-abstract')
with socket.socket() as tcp:
    verdicts['tcp'] = attempt(tcp.connect, ('127.0.0.1', ${port}))
verdicts['sleeper'] = str([pid for pid in os.listdir('/proc') if pid.isdigit() and b'sleep' in read('/proc/%s/cmdline' % pid)])
libc.shmget.restype = ctypes.c_int
verdicts['sysv'] = told(libc.shmget(0xCE11A, 64, 0o666))
verdicts['everyone'] = attempt(os.kill, -1, 9)
verdicts`,
    );
    const { sleeper, everyone, ...others } = verdicts;
    expect(succeeded(others)).toEqual({});
    expect(sleeper).toBe('[]');
    expect((await one.run('sleeper.poll()')).repr).toBeUndefined();
    expect((await two.run('1')).value).toBe(1);
  });
}

export function limitsOfPid1(open: Open): void {
  test('limits that the code sets for pid 1 affect only its own sandbox', async () => {
    const other = await open();
    const session = await open();
    const result = await session.run(`
import os, resource
resource.prlimit(1, resource.RLIMIT_NOFILE, (0, 0))
os._exit(3)`);
    expect(result).toMatchObject({ status: 'died', death: { code: 'KERNEL_DIED' } });
    // Where that pid 1 is asked for another kernel before it ends, it can only say that it has none.
    await session.run('1').catch((error) => expect(error).toBeInstanceOf(CellaError));
    expect((await session.run('1')).value).toBe(1);
    expect((await other.run('1')).value).toBe(1);
    expect(await readFile('/proc/self/limits', 'utf8')).toContain('Max open files');
  });
}
