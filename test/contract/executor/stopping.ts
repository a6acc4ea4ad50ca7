/** Queue, interrupt, timeout and death: what runs can be stopped, what waits is not lost, and the next cell is clean. */

import { describe, expect, it } from 'vitest';
import { Session } from '../../../src/index.ts';
import { inEnoughTime, shortestMs } from '../../support/kernels/enough-time.ts';
import { collect, type Open, resultOf, runUntilReady } from '../../support/kernels/session.ts';
import { kindLacks, kindLacksFor, lacksFor } from '../../support/kernels/unsupported.ts';

export function queueContract(open: Open, lend = open): void {
  describe('the queue', () => {
    it('runs fifty cells in order, each with its own result', async () => {
      await using session = await lend();
      const { execution } = await session.run('order = []');
      const runs = Array.from({ length: 50 }, (_, n) => session.run(`order.append(${n})\nprint(${n})\n${n} * 2`));
      const results = await Promise.all(runs);
      results.forEach((result, n) => {
        expect(result).toMatchObject({ status: 'ok', value: n * 2, stdout: `${n}\n`, execution: execution + 1 + n });
      });
      expect((await session.run('order == list(range(50))')).value).toBe(true);
    });

    it('refuses cells over its limit with KERNEL_BUSY, and keeps those that it has', async () => {
      await using session = await open({ queueLimit: 2 });
      const released = Promise.withResolvers<string>();
      const { result } = await runUntilReady(session, 'print("ready")\ninput()', { onInput: () => released.promise });
      const queued = [session.run('1'), session.run('2')];
      await expect(session.run('3')).rejects.toMatchObject({ code: 'KERNEL_BUSY', details: { queued: 2 } });
      const refused = expect.objectContaining({ code: 'KERNEL_BUSY' });
      // Across a wire the refusal comes where the first event would.
      const streaming = async () => collect(session.stream('3'));
      if (session instanceof Session) expect(() => session.stream('3')).toThrow(refused);
      else await expect(streaming()).rejects.toEqual(refused);
      await expect(session.variables()).rejects.toMatchObject({ code: 'KERNEL_BUSY' });
      released.resolve('go');
      expect((await result).value).toBe('go');
      expect((await Promise.all(queued)).map(({ value }) => value)).toEqual([1, 2]);
      expect((await session.run('4')).value).toBe(4);
    });

    it('removes a waiting cell at once when its signal aborts, and never runs it', async () => {
      await using session = await lend();
      const released = Promise.withResolvers<string>();
      const { result } = await runUntilReady(session, 'ran = []\nprint("ready")\ninput()', {
        onInput: () => released.promise,
      });
      const abort = new AbortController();
      const waiting = session.run('ran.append(1)', { signal: abort.signal });
      const after = session.run('ran.append(2)');
      abort.abort();
      // Told while the first still runs.
      await expect(waiting).rejects.toMatchObject({ code: 'ABORTED' });
      released.resolve('');
      await result;
      expect((await after).status).toBe('ok');
      expect((await session.run('ran')).value).toEqual([2]);
    });

    it('does not accept a cell whose signal is already aborted', async () => {
      await using session = await lend();
      await expect(session.run('x = 1', { signal: AbortSignal.abort() })).rejects.toMatchObject({ code: 'ABORTED' });
      expect((await session.run('"x" in dir()')).value).toBe(false);
    });

    it('interrupts a running cell when its signal aborts', async () => {
      await using session = await lend();
      const abort = new AbortController();
      const { result } = await runUntilReady(session, 'x = 5\nprint("ready")\nwhile True: pass', {
        signal: abort.signal,
      });
      abort.abort();
      expect(await result).toMatchObject({ status: 'interrupted', stdout: 'ready\n' });
      expect((await session.run('x')).value).toBe(5);
    });
  });
}

const say = 'print("ready", flush=True)\n';
const blocking: readonly [string, string][] = [
  ['a busy loop', `${say}while True: pass`],
  ['a busy loop of many short calls', `${say}while True: len([1])`],
  ['time.sleep', `import time\n${say}time.sleep(1000)`],
  ['a blocking read', `import os\nr, w = os.pipe()\n${say}os.read(r, 1)`],
  ['os.system', 'import os, time\nos.system("echo ready; exec sleep 1000")\ntime.sleep(1000)'],
  ['subprocess.run', 'import subprocess\nsubprocess.run(["sh", "-c", "echo ready; exec sleep 1000"])'],
  ['a top-level await', `import asyncio\n${say}await asyncio.sleep(1000)`],
  ['a lock that nobody lets go', `import threading\nlock = threading.Lock()\nlock.acquire()\n${say}lock.acquire()`],
  ['an endless print', 'while True: print("ready")'],
  ['an endless display', `${say}while True: display(1)`],
];

export function interruptContract(open: Open, lend = open): void {
  describe('an interrupt', () => {
    it.each(blocking)('stops %s with KeyboardInterrupt, and keeps the state', async (_name, code) => {
      await using session = await lend();
      if (await lacksFor(session, code)) return;
      const { result } = await runUntilReady(session, `kept = 7\n${code}`);
      expect(await session.interrupt()).toBe(true);
      const { status, error, death } = await result;
      expect({ status, name: error?.name, death }).toEqual({
        status: 'interrupted',
        name: 'KeyboardInterrupt',
        death: undefined,
      });
      expect(error?.traceback).not.toContain('cella_kernel');
      expect((await session.run('kept')).value).toBe(7);
    });

    it('reaches a cell that has only just begun', async () => {
      await using session = await lend();
      for (let round = 0; round < 30; round++) {
        const running = session.run('while True: pass');
        while (!(await session.interrupt()));
        const { status, death } = await running;
        expect({ status, death }).toEqual({ status: 'interrupted', death: undefined });
      }
    });

    it('that arrives late does not affect the next cell', async () => {
      await using session = await lend();
      for (let round = 0; round < 100; round++) {
        const short = session.run(`sum(range(${(round % 10) * 300}))`);
        while (!(await session.interrupt())) if (await Promise.race([short, Promise.resolve()])) break;
        const { status } = await short;
        expect(['ok', 'interrupted']).toContain(status);
        const next = await session.run('sum(range(5000))');
        expect(next).toMatchObject({ status: 'ok', value: 12497500 });
      }
    });

    it('raises KeyboardInterrupt once, even if pid 1 signals repeatedly, so that code can clean up', async () => {
      await using session = await lend();
      for (let round = 0; round < 50; round++) {
        const code =
          'cleaned = 0\ntry:\n    print("ready", flush=True)\n    while True: pass\nfinally:\n    cleaned = sum(1 for _ in range(20_000))';
        const { result } = await runUntilReady(session, code);
        await session.interrupt();
        expect((await result).status).toBe('interrupted');
        expect((await session.run('cleaned')).value).toBe(20_000);
      }
    });

    it('that is requested many times at once is one interrupt, or a few, and never ends the kernel', async () => {
      await using session = await lend();
      for (let round = 0; round < 50; round++) {
        const { result } = await runUntilReady(session, 'print("ready", flush=True)\nwhile True: pass');
        await Promise.all(Array.from({ length: 1 + (round % 5) }, () => session.interrupt()));
        const { status, death } = await result;
        expect({ status, death }).toEqual({ status: 'interrupted', death: undefined });
      }
      expect((await session.run('1')).value).toBe(1);
    });

    it('does nothing in an idle session', async () => {
      await using session = await lend();
      expect(await session.interrupt()).toBe(false);
      expect((await session.run('1')).value).toBe(1);
    });

    it('that the code catches does not end the cell', async () => {
      await using session = await lend();
      const code =
        'try:\n    print("ready", flush=True)\n    while True: pass\nexcept KeyboardInterrupt:\n    caught = "yes"\ncaught';
      const { result } = await runUntilReady(session, code);
      await session.interrupt();
      expect(await result).toMatchObject({ status: 'ok', value: 'yes' });
    });

    it('that the code ignores ends the kernel after the grace period', async () => {
      await using session = await open({ graceMs: 100 });
      const ignore =
        'import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint("ready", flush=True)\nwhile True: pass';
      const { result } = await runUntilReady(session, ignore);
      await session.interrupt();
      expect(await result).toMatchObject({ status: 'interrupted', death: { signal: 'SIGKILL' } });
      expect(await session.run('1')).toMatchObject({ value: 1, recovered: { cause: { signal: 'SIGKILL' } } });
    });

    it('does not affect waiting cells', async () => {
      await using session = await lend();
      const { result } = await runUntilReady(session, 'print("ready", flush=True)\nwhile True: pass');
      const next = session.run('"next"');
      await session.interrupt();
      expect((await result).status).toBe('interrupted');
      expect(await next).toMatchObject({ status: 'ok', value: 'next' });
    });

    it('raised by the code itself is an error like any other', async () => {
      await using session = await open();
      expect(await session.run('raise KeyboardInterrupt')).toMatchObject({
        status: 'error',
        error: { name: 'KeyboardInterrupt' },
      });
      const own = await session.run('import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nwhile True: pass');
      expect(own).toMatchObject({ status: 'error', error: { name: 'KeyboardInterrupt' } });
    });
  });
}

const hasPrinted = ({ stdout }: { readonly stdout: string }) => stdout !== '';

export function timeoutContract(open: Open, lend = open): void {
  describe('a timeout', () => {
    it('interrupts the code, keeps output and state, and does not affect the next cell', async () => {
      await using session = await lend();
      const code = 'x = 3\nprint("partial")\nwhile True: pass';
      const result = await inEnoughTime(200, (timeoutMs) => session.run(code, { timeoutMs }), hasPrinted);
      expect(result).toMatchObject({ status: 'timeout', stdout: 'partial\n', error: { name: 'TimeoutError' } });
      expect(result.error?.traceback).toContain('while True: pass');
      expect(result.death).toBeUndefined();
      expect(await session.run('x')).toMatchObject({ status: 'ok', value: 3, stdout: '' });
    });

    it('of the session applies to every cell, unless a cell sets its own', async () => {
      await using session = await open({ timeoutMs: 100 });
      expect((await session.run('import time\ntime.sleep(100)')).status).toBe('timeout');
      expect(await session.run('time.sleep(0.3)\n1', { timeoutMs: 0 })).toMatchObject({ status: 'ok', value: 1 });
    });

    it('kills code that ignores it after the grace period, and keeps its output', async () => {
      await using session = await open({ graceMs: 100 });
      const code =
        'import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint("stubborn", flush=True)\nwhile True: pass';
      const result = await inEnoughTime(200, (timeoutMs) => session.run(code, { timeoutMs }), hasPrinted);
      expect(result).toMatchObject({ status: 'timeout', stdout: 'stubborn\n', death: { signal: 'SIGKILL' } });
      expect(await session.run('1')).toMatchObject({
        status: 'ok',
        value: 1,
        recovered: { cause: { signal: 'SIGKILL' } },
      });
    });

    it('kills C code that never checks for signals', async () => {
      await using session = await open({ graceMs: 100 });
      const spin = 'import re\nre.match(r"(a+)+$", "a" * 60 + "b")';
      expect(await session.run(spin, { timeoutMs: 100 })).toMatchObject({ status: 'timeout' });
      expect((await session.run('1')).value).toBe(1);
    });

    it('lets no late output of the stopped code appear in the next cell', async () => {
      await using session = await lend();
      const result = await session.run('try:\n    while True: print("old")\nfinally:\n    print("old")', {
        timeoutMs: 100,
      });
      expect(result.status).toBe('timeout');
      expect(await session.run('print("new")')).toMatchObject({ status: 'ok', stdout: 'new\n' });
    });

    it('of one cell does not stop the waiting ones', async () => {
      await using session = await lend();
      const [first, second] = await Promise.all([
        session.run('while True: pass', { timeoutMs: 100 }),
        session.run('"second"', { timeoutMs: 60_000 }),
      ]);
      expect(first.status).toBe('timeout');
      expect(second).toMatchObject({ status: 'ok', value: 'second' });
    });
  });
}

export function deathContract(open: Open, lend = open): void {
  describe('death', () => {
    it.each<[string, string, object]>([
      ['os._exit', 'import os\nos._exit(7)', { exitCode: 7 }],
      ['SIGKILL by its own hand', 'import os\nos.kill(os.getpid(), 9)', { signal: 'SIGKILL' }],
      ['a segmentation fault', 'import ctypes\nctypes.string_at(0)', { signal: 'SIGSEGV' }],
      ['abort', 'import os\nos.abort()', { signal: 'SIGABRT' }],
    ])(
      'by %s is told with its cause and last words, and the next cell runs in a fresh kernel',
      async (_name, code, how) => {
        if (await kindLacksFor(lend, code)) return;
        await using session = await open();
        await session.run('x = 1');
        const dying = `import sys\nprint("said")\nprint("last words", file=sys.stderr, flush=True)\nsys.stdout.flush()\n${code}`;
        const result = await session.run(dying);
        expect(result).toMatchObject({
          status: 'died',
          stdout: 'said\n',
          error: { name: 'KERNEL_DIED' },
          death: { code: 'KERNEL_DIED', ...how },
        });
        expect(result.death?.lastStderr).toContain('last words');
        const next = await session.run('"x" in dir()');
        expect(next).toMatchObject({
          status: 'ok',
          value: false,
          recovered: { cause: { code: 'KERNEL_DIED', ...how } },
        });
        expect((await session.run('1')).recovered).toBeUndefined();
      },
    );

    it('is reported within a second', async () => {
      await using session = await open();
      const code = 'import os\nprint("ready", flush=True)\ninput()\nos._exit(1)';
      const toldMs = await shortestMs(1000, async () => {
        const released = Promise.withResolvers<string>();
        const { result } = await runUntilReady(session, code, { onInput: () => released.promise });
        const from = performance.now();
        released.resolve('');
        expect((await result).status).toBe('died');
        const tookMs = performance.now() - from;
        expect((await session.run('1')).value).toBe(1);
        return tookMs;
      });
      expect(toldMs).toBeLessThan(1000);
    });

    it('loses no waiting cell, and runs the cell that died only once', async () => {
      await using session = await open();
      const runs = [
        session.run('open("count", "a").write("x")\nimport os\nos._exit(1)'),
        session.run('len(open("count").read())'),
        session.run('2'),
      ];
      const results = await Promise.all(runs);
      expect(results.map(({ status }) => status)).toEqual(['died', 'ok', 'ok']);
      expect(results.map(({ value }) => value)).toEqual([undefined, 1, 2]);
      expect(results.map(({ recovered }) => recovered !== undefined)).toEqual([false, true, false]);
    });

    it('while idle is reported by the next cell', async () => {
      if (await kindLacks(lend, 'threads')) return;
      await using session = await open();
      await session.run('import os, threading\nthreading.Timer(0.05, os._exit, (9,)).start()');
      let result = await session.run('1');
      while (!result.recovered && result.status === 'ok') result = await session.run('import time\ntime.sleep(0.02)');
      expect(result.death ?? result.recovered?.cause).toMatchObject({ exitCode: 9 });
    });

    it('is survived repeatedly', async () => {
      await using session = await open();
      for (let round = 0; round < 5; round++) {
        expect((await session.run('import os\nos._exit(1)')).status).toBe('died');
        expect((await session.run('1')).value).toBe(1);
      }
    });

    it('ends the child processes of the code', async () => {
      if (await kindLacks(lend, 'subprocesses')) return;
      await using session = await open();
      await session.run('import subprocess\np = subprocess.Popen(["sleep", "1000"])');
      const pid = (await session.run('p.pid')).value as number;
      await session.run('import os\nos._exit(1)');
      const gone = `import os\ntry:\n    open("/proc/${pid}/cmdline").read().startswith("sleep")\nexcept OSError:\n    pass`;
      expect((await session.run(gone)).value).not.toBe(true);
    });

    it('is the result in a stream', async () => {
      await using session = await open();
      const events = await collect(session.stream('print("a", flush=True)\nimport os\nos._exit(2)'));
      expect(resultOf(events)).toMatchObject({ status: 'died', stdout: 'a\n', death: { exitCode: 2 } });
    });
  });
}
