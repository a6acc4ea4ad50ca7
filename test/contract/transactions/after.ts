/** After a rollback or a commit the kernel works as if there had been no transaction. */

import { describe, expect, it } from 'vitest';
import { eventually } from '../../support/kernels/attack-code.ts';
import { type Open, runUntilReady } from '../../support/kernels/session.ts';
import { evaluate, residents } from '../../support/kernels/state.ts';
import { lacks } from '../../support/kernels/unsupported.ts';

export function afterTransactionContract(open: Open): void {
  const dry = { transaction: 'rollback_always' } as const;

  describe('after a rollback', () => {
    it('a replaced sys.stdout is the old one again, and print works', async () => {
      await using session = await open();
      await session.run('import io, sys\nprint("before")');
      await session.run('sys.stdout = sys.stderr = io.StringIO()\nprint("into nothing")', dry);
      const result = await session.run('print("out")\nprint("err", file=sys.stderr)');
      expect(result).toMatchObject({ stdout: 'out\n', stderr: 'err\n' });
    });

    it('closed standard descriptors are open again', async () => {
      await using session = await open();
      expect((await session.run('import os\nos.close(1); os.close(2)', dry)).transaction).toBe('rolled_back');
      expect((await session.run('print("out")')).stdout).toBe('out\n');
      if (await lacks(session, 'subprocesses')) return;
      expect(await session.run('print("out")\nos_ = __import__("os").system("echo child")')).toMatchObject({
        stdout: 'out\nchild\n',
      });
    });

    it('the event loop works before, between and after', async () => {
      await using session = await open();
      const wait = 'import asyncio\nawait asyncio.sleep(0.001, "slept")';
      expect((await session.run(wait)).value).toBe('slept');
      expect(await session.run(wait, dry)).toMatchObject({ value: 'slept', transaction: 'rolled_back' });
      expect((await session.run(wait)).value).toBe('slept');
      const wake =
        'loop = asyncio.get_event_loop()\nloop.call_soon_threadsafe(lambda: None)\nawait asyncio.sleep(0, 1)';
      expect((await session.run(wake)).value).toBe(1);
    });

    it('a task of an earlier cell continues from its previous state', async () => {
      await using session = await open();
      await session.run(
        'import asyncio\nticks = []\nasync def tick():\n    while True:\n        ticks.append(len(ticks))\n        await asyncio.sleep(0.001)\ntask = asyncio.create_task(tick())\nawait asyncio.sleep(0.01)\nassert ticks',
      );
      await session.run('task.cancel(); ticks.clear()', dry);
      if (!session.capabilities.trueRollback) {
        expect(await evaluate(session, 'await asyncio.sleep(0)\ntask.cancelled()')).toBe(true);
        return;
      }
      const code =
        'have = len(ticks)\nwhile len(ticks) < have + 3: await asyncio.sleep(0.001)\nticks == list(range(len(ticks)))';
      expect(await session.run(code, { timeoutMs: 10_000 })).toMatchObject({ status: 'ok', value: true });
    });

    it('input() works as before, and a variable `input` of the code stays', async () => {
      await using session = await open();
      const onInput = ({ prompt }: { prompt: string }) => `answer to ${prompt}`;
      const ask = () => session.run('input("a? ")', { onInput });
      expect((await ask()).value).toBe('answer to a? ');
      const within = await session.run('input = lambda *_: "mine"\ninput()', { ...dry, onInput });
      expect(within).toMatchObject({ value: 'mine', transaction: 'rolled_back' });
      expect((await ask()).value).toBe('answer to a? ');
      expect((await session.run('input("b? ")', { ...dry, onInput })).value).toBe('answer to b? ');
      await session.run('input = lambda *_: "mine"');
      await session.run('del input', dry);
      expect((await ask()).value).toBe('mine');
    });

    it('getpass and sys.stdin work as before', async () => {
      await using session = await open();
      await session.run('x = 1', dry);
      const onInput = ({ password }: { password: boolean }) => (password ? 'secret' : 'line');
      const code = 'import getpass, sys\n[getpass.getpass(), sys.stdin.readline()]';
      expect((await session.run(code, { onInput })).value).toEqual(['secret', 'line\n']);
    });

    it('an interrupt stops the code and keeps the state', async () => {
      await using session = await open();
      await session.run('x = 1');
      await session.run('x = 2', dry);
      const { result } = await runUntilReady(session, 'x += 1\nprint("ready", flush=True)\nwhile True: pass');
      expect(await session.interrupt()).toBe(true);
      expect(await result).toMatchObject({ status: 'interrupted', error: { name: 'KeyboardInterrupt' } });
      expect(await evaluate(session, 'x')).toBe(2);
    });

    it('a timeout stops the code and keeps the state', async () => {
      await using session = await open();
      await session.run('x = 2', dry);
      const result = await session.run('x = 3\nimport time; time.sleep(1000)', { timeoutMs: 100 });
      expect(result.status).toBe('timeout');
      expect(result.death).toBeUndefined();
      expect(await evaluate(session, 'x')).toBe(3);
    });

    it('tracebacks and inspect show the lines of earlier cells', async () => {
      await using session = await open();
      await session.run('def f():\n    raise KeyError("from an early cell")');
      await session.run('def f(): pass', dry);
      expect((await session.run('f()')).error?.traceback).toContain('raise KeyError("from an early cell")');
      expect(await evaluate(session, 'import inspect; inspect.getsource(f)')).toContain('from an early cell');
    });

    it('child processes can be started, and their output arrives', async () => {
      await using session = await open();
      if (await lacks(session, 'subprocesses')) return;
      await session.run('import subprocess\nprint("before")');
      await session.run('subprocess.run(["echo", "dry"])', dry);
      const result = await session.run('print("a")\nsubprocess.run(["echo", "child"]).returncode');
      expect(result).toMatchObject({ value: 0, stdout: 'a\nchild\n' });
    });

    it('the code of a rolled-back cell runs in no process', async () => {
      await using session = await open();
      if (await lacks(session, 'subprocesses')) return;
      await session.run('x = 1');
      const before = residents(session);
      const code = 'import subprocess\np = subprocess.Popen(["sleep", "1000"], start_new_session=True)';
      expect((await session.run(code, dry)).transaction).toBe('rolled_back');
      await eventually(
        () => residents(session).length,
        (count) => count === before.length,
        5000,
      );
    });

    it('the last results are those of before', async () => {
      await using session = await open();
      await session.run('41');
      expect((await session.run('"dry"', dry)).value).toBe('dry');
      expect(await evaluate(session, '_ + 1')).toBe(42);
    });

    it('variables and completion show the earlier variables', async () => {
      await using session = await open();
      await session.run('apple = 1');
      await session.run('apricot = 2; del apple', dry);
      expect((await session.variables()).map(({ name }) => name)).toEqual(['apple']);
      expect((await session.complete('ap')).matches.map(({ text }) => text)).toEqual(['apple']);
    });

    it('a restart begins without variables, and a rollback works there too', async () => {
      await using session = await open();
      await session.run('x = 1');
      await session.run('x = 2', dry);
      await session.restart();
      await session.run('x = 3');
      await session.run('x = 4', dry);
      expect(await evaluate(session, 'x')).toBe(3);
    });

    it('another can follow at once, fifty times, even right after prints', async () => {
      await using session = await open();
      await session.run('n = 0');
      for (let round = 0; round < 50; round++) {
        await session.run(`print(${round}); n += 1`);
        expect(await session.run('n = -1; print("dry", n)', dry)).toMatchObject({
          status: 'ok',
          transaction: 'rolled_back',
          stdout: 'dry -1\n',
        });
      }
      expect(await evaluate(session, 'n')).toBe(50);
    });
  });

  describe('after a commit', () => {
    it('child processes from before are still the code’s own', async () => {
      await using session = await open();
      if (await lacks(session, 'subprocesses')) return;
      await session.run(
        'import subprocess\np = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)',
      );
      expect(await session.run('x = p.pid', { transaction: 'commit_on_success' })).toMatchObject({
        transaction: 'committed',
      });
      const talk = 'p.stdin.write("hello\\n"); p.stdin.close()\n[p.stdout.read(), p.wait(), x == p.pid]';
      expect(await evaluate(session, talk)).toEqual(['hello\n', 0, true]);
    });

    it('random numbers continue as if there had been no transaction', async () => {
      await using session = await open();
      await session.run(
        'import random\nrandom.seed(5)\nexpected = [random.random() for _ in range(3)]\nrandom.seed(5)',
      );
      const code = 'drawn = [*globals().get("drawn", []), random.random()]';
      for (let round = 0; round < 3; round++) await session.run(code, { transaction: 'commit_on_success' });
      expect(await evaluate(session, 'drawn == expected')).toBe(true);
    });
  });
}
