/** However a cell fails, its changes are rolled back. */

import { describe, expect, it } from 'vitest';
import { inEnoughTime } from '../../support/kernels/enough-time.ts';
import { type Open, runUntilReady } from '../../support/kernels/session.ts';
import { evaluate, kernelPid, kill } from '../../support/kernels/state.ts';
import { diedWithItsPast, LOOK } from '../../support/kernels/transactions.ts';
import { lacks, lacksFor } from '../../support/kernels/unsupported.ts';

const root = process.getuid?.() === 0;

export function failuresContract(open: Open): void {
  const SAY = 'x = 20; y = 30; print("said", flush=True)\n';
  const kinds: [name: string, code: string, options: { timeoutMs?: number }, told: object][] = [
    ['an exception', 'raise ValueError("no")', {}, { status: 'error', error: { name: 'ValueError' } }],
    ['sys.exit with a code', 'import sys; sys.exit(3)', {}, { status: 'error', error: { exitCode: 3 } }],
    ['a timeout', 'while True: pass', { timeoutMs: 200 }, { status: 'timeout' }],
    [
      'a timeout of C code, which is killed',
      'import collections, itertools\ncollections.deque(itertools.repeat(0), maxlen=0)',
      { timeoutMs: 200 },
      { status: 'timeout', death: { signal: 'SIGKILL' } },
    ],
    ['os._exit', 'import os; os._exit(3)', {}, { status: 'died', death: { exitCode: 3 } }],
    ['SIGKILL', 'import os; os.kill(os.getpid(), 9)', {}, { status: 'died', death: { signal: 'SIGKILL' } }],
    [
      'a segmentation fault',
      'import ctypes; ctypes.string_at(0)',
      {},
      { status: 'died', death: { signal: 'SIGSEGV' } },
    ],
    [
      'a MemoryError',
      'import sys; bytearray(sys.maxsize - 1000)',
      {},
      { status: 'error', error: { name: 'MemoryError' } },
    ],
  ];

  describe('a failure is rolled back:', () => {
    it.each(kinds)('%s, with its output in the result', async (_name, code, options, told) => {
      await using session = await open({ graceMs: 100 });
      if (await lacksFor(session, code)) return;
      await session.run('x = 10; kept = [1]');
      const attempt = (limit: { timeoutMs?: number }) =>
        session.run(`kept.append(2); ${SAY}${code}`, { ...limit, transaction: 'rollback_on_failure' });
      const { timeoutMs: firstMs } = options;
      const result =
        firstMs === undefined
          ? await attempt({})
          : await inEnoughTime(
              firstMs,
              (timeoutMs) => attempt({ timeoutMs }),
              ({ stdout }) => stdout !== '',
            );
      expect(result).toMatchObject({ ...told, stdout: 'said\n' });
      if (await diedWithItsPast(session, result)) return;
      expect(result.transaction).toBe('rolled_back');
      expect(await evaluate(session, '[x, "y" in dir(), kept]')).toEqual([10, false, [1]]);
    });

    it('an interrupt', async () => {
      await using session = await open();
      await session.run('x = 10');
      const code = 'x = 20; y = 30; print("ready", flush=True)\nwhile True: pass';
      const { result } = await runUntilReady(session, code, { transaction: 'rollback_on_failure' });
      expect(await session.interrupt()).toBe(true);
      expect(await result).toMatchObject({ status: 'interrupted', transaction: 'rolled_back', stdout: 'ready\n' });
      expect(await evaluate(session, LOOK)).toEqual([10, false]);
    });

    it('an interrupt of code that ignores it and is killed', async () => {
      await using session = await open({ graceMs: 100 });
      await session.run('x = 10');
      const ignore = 'import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n';
      const code = `${ignore}x = 20; y = 30; print("ready", flush=True)\nwhile True: pass`;
      const { result } = await runUntilReady(session, code, { transaction: 'rollback_on_failure' });
      await session.interrupt();
      const ended = await result;
      expect(ended).toMatchObject({ status: 'interrupted', death: {} });
      if (await diedWithItsPast(session, ended)) return;
      expect(ended.transaction).toBe('rolled_back');
      expect(await evaluate(session, LOOK)).toEqual([10, false]);
    });

    it('an aborted signal', async () => {
      await using session = await open();
      await session.run('x = 10');
      const abort = new AbortController();
      const code = 'x = 20; y = 30; print("ready", flush=True)\nwhile True: pass';
      const { result } = await runUntilReady(session, code, { transaction: 'commit_on_success', signal: abort.signal });
      abort.abort();
      expect(await result).toMatchObject({ status: 'interrupted', transaction: 'rolled_back' });
      expect(await evaluate(session, LOOK)).toEqual([10, false]);
    });

    it('a SyntaxError, which counts as rolled back although nothing ran', async () => {
      await using session = await open();
      await session.run('x = 10');
      const result = await session.run('x = 20\ny = = 30', { transaction: 'rollback_on_failure' });
      expect(result).toMatchObject({ status: 'error', error: { name: 'SyntaxError' }, transaction: 'rolled_back' });
      expect(await evaluate(session, LOOK)).toEqual([10, false]);
    });

    it('a kernel that is killed from outside', async () => {
      await using session = await open();
      if (await lacks(session, 'subprocesses')) return;
      await session.run('x = 10');
      const pid = await kernelPid(session);
      const code = 'x = 20; y = 30; print("ready", flush=True)\nwhile True: pass';
      const { result } = await runUntilReady(session, code, { transaction: 'rollback_on_failure' });
      kill(pid);
      expect(await result).toMatchObject({ status: 'died', transaction: 'rolled_back', death: { signal: 'SIGKILL' } });
      expect(await evaluate(session, LOOK)).toEqual([10, false]);
    });

    it('a kernel that runs out of memory', async () => {
      await using session = await open({ limits: { memoryMb: 160 } });
      await session.run('x = 10');
      const hog = 'import mmap\nmemory = mmap.mmap(-1, 1 << 31)\nfor at in range(0, len(memory), 4096): memory[at] = 1';
      const result = await session.run(`${SAY}${hog}`, { transaction: 'rollback_on_failure' });
      // Where control groups bound a sandbox it is killed; elsewhere the limit is an error in the code.
      const ends =
        root && session.capabilities.subprocesses
          ? { status: 'died', death: { code: 'KERNEL_OUT_OF_MEMORY' } }
          : { status: 'error' };
      expect(result).toMatchObject({ ...ends, transaction: 'rolled_back', stdout: 'said\n' });
      expect(await evaluate(session, LOOK)).toEqual([10, false]);
    });

    it('repeated deaths, which are no crash loop', async () => {
      await using session = await open();
      await session.run('x = 10');
      for (let round = 0; round < 8; round++) {
        const result = await session.run('x = 20\nimport os; os._exit(1)', { transaction: 'rollback_on_failure' });
        expect(result.status).toBe('died');
        if (await diedWithItsPast(session, result)) return;
        expect(result.transaction).toBe('rolled_back');
      }
      expect(await evaluate(session, 'x')).toBe(10);
    });

    it('but sys.exit without a code is not a failure', async () => {
      await using session = await open();
      await session.run('x = 10');
      const result = await session.run('x = 20\nimport sys; sys.exit()', { transaction: 'rollback_on_failure' });
      expect(result).toMatchObject({ status: 'ok', transaction: 'committed' });
      expect(await evaluate(session, 'x')).toBe(20);
    });
  });
}
