/** Code that takes all it can get: each limit bites where it should, says so, and leaves the host and others alone. */

import { describe, expect, test } from 'vitest';
import { eventually } from '../../support/kernels/attack-code.ts';
import type { Open } from '../../support/kernels/session.ts';
import { descendants } from '../../support/processes/processes.ts';

const root = process.getuid?.() === 0;

export function resourceFaults(open: Open): void {
  describe('processes', () => processes(open));
  describe('memory', () => memory(open));
  describe('CPU time', () => cpuTime(open));
  describe('disk and files', () => files(open));
}

function processes(open: Open): void {
  test('a fork bomb stays in its sandbox, and a reset ends it', async () => {
    const other = await open();
    const session = await open({ limits: { processes: 48 }, graceMs: 500 });
    const bomb = session.run('import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass', {
      timeoutMs: 1000,
    });
    await eventually(
      () => descendants(session.pid).length,
      (count) => count >= 20,
      10_000,
    );
    expect((await other.run('6 * 7')).value).toBe(42);
    // Pid 1 is one of those that are counted.
    expect(descendants(session.pid).length).toBeLessThanOrEqual(48);
    expect((await bomb).status).toBe('timeout');
    await session.reset();
    await eventually(
      () => descendants(session.pid).length,
      (count) => count === 1,
      30_000,
    );
    expect((await session.run('6 * 7')).value).toBe(42);
  });

  test('forks and threads past the limit fail, and the kernel lives on', async () => {
    const session = await open({ limits: { processes: 32 } });
    const forks = await session.run(`
import os, signal, threading, time
kept, pids = 1, []
try:
    while True:
        pid = os.fork()
        if pid == 0:
            time.sleep(3600)
        pids.append(pid)
except BlockingIOError:
    pass
for pid in pids:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
len(pids)`);
    expect(forks.value).toBeGreaterThan(20);
    expect(forks.value).toBeLessThan(32);
    const threads = await session.run(`
event, started = threading.Event(), 0
try:
    while True:
        threading.Thread(target=event.wait).start()
        started += 1
except RuntimeError:
    pass
event.set()
started`);
    expect(threads.value).toBeGreaterThan(20);
    expect(threads.value).toBeLessThan(32);
    expect((await session.run('kept')).value).toBe(1);
  });
}

/** Until the kernel has none for its own work either. Where it finds some, it lives on. */
export async function fillsAllMemory(open: Open): Promise<void> {
  await using session = await open({ limits: { memoryMb: 96 } });
  // Places for what is kept are there before it gets tight.
  const result = await session.run(`
held, count, size = [None] * (1 << 20), 0, 1 << 20
while size > 4:
    try:
        held[count] = "x" * size
        count += 1
    except MemoryError:
        size >>= 1
raise ValueError(repr(held[0][:100]))`);
  if (result.status === 'died') {
    expect(result).toMatchObject({ death: { code: 'KERNEL_OUT_OF_MEMORY' } });
  } else {
    expect(result.error?.name).toMatch(/^(Value|Memory)Error$/);
    await session.reset();
  }
  expect(await session.run('[1]')).toMatchObject({ status: 'ok', value: [1] });
}

function memory(open: Open): void {
  test('more than the limit is a MemoryError, and the kernel lives on', async () => {
    const session = await open({ limits: { memoryMb: 256 } });
    await session.run('kept = 1');
    const once = await session.run('block = bytearray(1 << 30)');
    expect(once).toMatchObject({ status: 'error', error: { name: 'MemoryError' } });
    const slowly = await session.run('blocks = []\nwhile True:\n    blocks.append(bytearray(1 << 20))');
    expect(slowly).toMatchObject({ status: 'error', error: { name: 'MemoryError' } });
    expect((await session.run('blocks.clear(); kept')).value).toBe(1);
  });

  test('used up to the last byte leaves the kernel alive, or the death has the right reason', () =>
    fillsAllMemory(open));

  test(`shared memory past the limit ${root ? 'kills the kernel, and is told apart' : 'cannot be had'}`, async () => {
    const session = await open({ limits: { memoryMb: 128 } });
    const result = await session.run(`
import mmap
memory = mmap.mmap(-1, 2 << 30)
for at in range(0, len(memory), 4096):
    memory[at] = 1`);
    const told = root
      ? { status: 'died', death: { code: 'KERNEL_OUT_OF_MEMORY', signal: 'SIGKILL' } }
      : { status: 'error', error: { name: 'OSError', message: expect.stringContaining('Cannot allocate memory') } };
    expect(result).toMatchObject(told);
    expect((await session.run('1')).value).toBe(1);
  });

  if (root) {
    test('a full /tmp that has used up the memory is removed with the kernel that died of it', async () => {
      const session = await open({ limits: { memoryMb: 128, scratchMb: 512 } });
      const result = await session.run(`
with open('/tmp/full', 'wb') as file:
    while True:
        file.write(bytes(1 << 20))`);
      expect(result).toMatchObject({ status: 'died', death: { code: 'KERNEL_OUT_OF_MEMORY' } });
      expect((await session.run('__import__("os").path.exists("/tmp/full")')).value).toBe(false);
    });
  }

  test(`children ${root ? 'are bound together: the largest is killed' : 'are bound each by itself'}`, async () => {
    const session = await open({ limits: { memoryMb: 160 } });
    const result = await session.run(`
import os, signal
reader, writer = os.pipe()
pids = []
for size in (60, 70, 80):
    pid = os.fork()
    if pid == 0:
        block = bytearray(b'x') * (size << 20)
        os.write(writer, b'x')
        signal.pause()
    pids.append(pid)
os.close(writer)
ended = set()
heard = 0
while heard + len(ended) < 3:
    pid, status = os.waitpid(-1, os.WNOHANG)
    if pid:
        ended.add(os.WTERMSIG(status))
    os.set_blocking(reader, False)
    try:
        heard += len(os.read(reader, 16))
    except BlockingIOError:
        pass
for pid in pids:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
sorted(ended)`);
    expect(result.value).toEqual(root ? [9] : []);
    expect((await session.run('1')).value).toBe(1);
  });
}

function cpuTime(open: Open): void {
  test.each([
    ['is used up', ''],
    ['is used up by code that ignores the warning', 'import signal; signal.signal(signal.SIGXCPU, signal.SIG_IGN)\n'],
  ])('that %s ends the kernel, and is told apart', { timeout: 150_000 }, async (_name, before) => {
    const session = await open({ limits: { cpuSeconds: 1 } });
    // Processor time: a machine that is busy takes long to give it.
    const result = await session.run(`${before}while True: pass`, { timeoutMs: 100_000 });
    expect(result).toMatchObject({ status: 'died', death: { code: 'KERNEL_CPU_LIMIT', signal: 'SIGXCPU' } });
    const next = await session.run('1');
    expect(next).toMatchObject({ value: 1, recovered: { cause: { code: 'KERNEL_CPU_LIMIT' } } });
  });
}

function files(open: Open): void {
  test('/tmp and /dev/shm share the scratch limit', async () => {
    const session = await open({ limits: { scratchMb: 8 } });
    const result = await session.run(`
import errno, os
def fill(path):
    written = 0
    try:
        with open(path, 'wb', buffering=0) as file:
            while True:
                written += file.write(bytes(65536))
    except OSError as error:
        return errno.errorcode[error.errno], written >> 20
first, second = fill('/tmp/file'), fill('/dev/shm/file')
os.remove('/tmp/file')
first, second`);
    const [[first, inTmp], [second, shared]] = result.value as [[string, number], [string, number]];
    expect([first, second]).toEqual(['ENOSPC', 'ENOSPC']);
    // They have one space in a sandbox, and a part of it each in a container.
    expect(inTmp).toBeGreaterThan(4);
    expect(inTmp + shared).toBeLessThanOrEqual(8);
    expect((await session.run("open('/tmp/again', 'w').write('x')")).value).toBe(1);
  });

  test('a file over the size limit is an OSError, and the kernel lives on', async () => {
    const session = await open({ limits: { fileSizeMb: 2 } });
    const result = await session.run("open('large', 'wb').write(bytes(3 << 20))");
    expect(result).toMatchObject({ status: 'error', error: { name: 'OSError', message: '[Errno 27] File too large' } });
    expect((await session.run("import os; os.path.getsize('large') <= 2 << 20")).value).toBe(true);
  });

  test('too many open files are an OSError, and the kernel lives on', async () => {
    const session = await open({ limits: { openFiles: 576 } });
    const result = await session.run(`
files = []
try:
    while True:
        files.append(open('/dev/null'))
except OSError as error:
    number, count = error.errno, len(files)
files.clear()
number, count > 32`);
    expect(result.value).toEqual([24, true]);
  });

  test('after a kernel with few open files, another one can start', async () => {
    const session = await open({ limits: { openFiles: 576 } });
    expect((await session.run('import os; os._exit(3)')).status).toBe('died');
    expect((await session.run('import resource; resource.getrlimit(resource.RLIMIT_NOFILE)')).value).toEqual([
      576, 576,
    ]);
  });
}
