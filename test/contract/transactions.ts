/** Transactions: what becomes of the changes of a cell, however it ends, and that a rollback takes back everything. */

import { describe, expect, it, vi } from 'vitest';
import type { ExecuteOptions, ResultEvent, Session } from '../../src/index.ts';
import { eventually } from '../support/attack.ts';
import { inEnoughTime } from '../support/enough-time.ts';
import { lacks, lacksFor } from '../support/lacks.ts';
import { type Open, runUntilReady, scratchFolder } from '../support/session.ts';
import { evaluate, kernelPid, kill, residents } from '../support/state.ts';

type Policy = NonNullable<ExecuteOptions['transaction']>;

const root = process.getuid?.() === 0;
const LOOK = '[x, "y" in dir()]';

/** `short`: what differs from executor to executor. */
export function transactionContract(open: Open, short = false): void {
  policies(open);
  trueRollback(open);
  explicit(open);
  if (short) return;
  failures(open);
  afterRollback(open);
  threads(open);
}

function policies(open: Open): void {
  describe('a transaction', () => {
    const outcomes: [policy: Policy, succeeds: boolean, transaction: string | undefined, value: number][] = [
      ['commit_always', true, undefined, 20],
      ['commit_always', false, undefined, 20],
      ['commit_on_success', true, 'committed', 20],
      ['commit_on_success', false, 'rolled_back', 10],
      ['rollback_on_failure', true, 'committed', 20],
      ['rollback_on_failure', false, 'rolled_back', 10],
      ['rollback_always', true, 'rolled_back', 10],
      ['rollback_always', false, 'rolled_back', 10],
      ['explicit', true, 'open', 20],
      ['explicit', false, 'open', 20],
    ];
    it.each(outcomes)('with %s, the cell ended well: %s, is told as %s and leaves x at %i', async (...row) => {
      const [policy, succeeds, told, value] = row;
      await using session = await open();
      await session.run('x = 10');
      const code = `x = 20; y = 30${succeeds ? '' : '; raise ValueError'}`;
      const { status, transaction } = await session.run(code, { transaction: policy });
      expect({ status, transaction }).toEqual({ status: succeeds ? 'ok' : 'error', transaction: told });
      if (policy === 'explicit') await session.commit();
      expect(await evaluate(session, LOOK)).toEqual([value, value === 20]);
    });

    it('is what the session says, where the cell does not say otherwise', async () => {
      await using session = await open({ transaction: 'rollback_always' });
      expect(await session.run('x = 1')).toMatchObject({ transaction: 'rolled_back' });
      expect((await session.run('"x" in dir()')).value).toBe(false);
      expect((await session.run('x = 1', { transaction: 'commit_always' })).transaction).toBeUndefined();
      expect((await session.run('x')).value).toBe(1);
    });

    it('of an unknown kind is refused, and nothing runs', async () => {
      await using session = await open();
      const options = { transaction: 'perhaps' } as unknown as ExecuteOptions;
      await expect(session.run('x = 1', options)).rejects.toMatchObject({ code: 'INVALID_OPTIONS' });
      await expect(open({ transaction: 'perhaps' as Policy })).rejects.toMatchObject({ code: 'INVALID_OPTIONS' });
      expect(await evaluate(session, '"x" in dir()')).toBe(false);
    });

    it('that is a dry run still gives its value, its output and what it showed', async () => {
      await using session = await open();
      const code = 'import sys\nprint("out")\nprint("err", file=sys.stderr)\ndisplay("shown")\nx = [1, 2]\nx';
      const result = await session.run(code, { transaction: 'rollback_always' });
      expect(result).toMatchObject({ transaction: 'rolled_back', value: [1, 2], stdout: 'out\n', stderr: 'err\n' });
      expect(result.displays).toHaveLength(1);
      expect(await evaluate(session, '"x" in dir()')).toBe(false);
    });

    it('does not take back what the cell did outside of its kernel', async () => {
      await using session = await open();
      await session.run('open("file", "w").write("written"); x = 1', { transaction: 'rollback_always' });
      expect(await evaluate(session, '[open("file").read(), "x" in dir()]')).toEqual(['written', false]);
    });

    it('is in the history like any other cell, and cells keep their numbers', async () => {
      await using session = await open();
      await session.run('1');
      await session.run('2', { transaction: 'rollback_always' });
      expect(await session.run('3')).toMatchObject({ execution: 3, value: 3 });
      expect((await session.history()).map(({ execution, status }) => [execution, status])).toEqual([
        [1, 'ok'],
        [2, 'ok'],
        [3, 'ok'],
      ]);
    });

    it('leaves no frozen fork behind, however often and however it ends', async () => {
      await using session = await open();
      if (await lacks(session, 'subprocesses')) return;
      await session.run('x = 0');
      expect(residents(session)).toHaveLength(1);
      for (let round = 1; round <= 70; round++) {
        const options = { transaction: round % 2 ? 'rollback_always' : 'commit_on_success' } as const;
        expect(await session.run('x += 1', options)).toMatchObject({ status: 'ok' });
      }
      expect(await evaluate(session, 'x')).toBe(35);
      await eventually(
        () => residents(session).length,
        (count) => count === 1,
        5000,
      );
    });

    it('of many cells in a queue comes in their order', async () => {
      await using session = await open();
      await session.run('seen = []');
      const runs = Array.from({ length: 20 }, (_, n) =>
        session.run(`seen.append(${n})`, { transaction: n % 2 ? 'rollback_always' : 'commit_on_success' }),
      );
      await Promise.all(runs);
      expect(await evaluate(session, 'seen')).toEqual(Array.from({ length: 10 }, (_, n) => 2 * n));
    });

    it('of one session is none of another', async () => {
      const dataDir = await scratchFolder();
      await using one = await open({ dataDir, agentKey: 'one' });
      await using two = await open({ dataDir, agentKey: 'two' });
      await Promise.all([one.run('x = 1'), two.run('x = 1')]);
      await Promise.all([one.run('x = 2', { transaction: 'rollback_always' }), two.run('x = 2')]);
      expect([await evaluate(one, 'x'), await evaluate(two, 'x')]).toEqual([1, 2]);
    });
  });
}

/** What a cell can change: how it was made, the change, and a look at it that changes nothing. */
const changes: [name: string, before: string, change: string, look: string][] = [
  ['names', 'x = 10; z = 1', 'x = 20; y = 30; del z', '[x, "y" in globals(), "z" in globals()]'],
  ['a list, in place', 'a = [1, [2]]; b = a[1]', 'a.append(3); b.clear()', '[a, b, a[1] is b]'],
  ['a dict, in place', 'd = {"k": {"l": 1}}', 'd["k"]["l"] = 2; d["new"] = 1', 'd'],
  ['a set and a bytearray, in place', 's = {1}; b = bytearray(b"ab")', 's.add(2); b[0] = 120', '[sorted(s), bytes(b)]'],
  ['an object', 'class P: n = 1\np = P(); p.a = [1]', 'p.a.append(2); p.b = 1; P.n = 2', '[vars(p), P.n]'],
  ['a default argument', 'def f(seen=[]): seen.append(1)', 'f(); f()', 'len(f.__defaults__[0])'],
  [
    'what a closure holds',
    'def counter():\n    n = 0\n    def add():\n        nonlocal n\n        n += 1\n    return add\nadd = counter()',
    'add()',
    'add.__closure__[0].cell_contents',
  ],
  ['a numpy array, in place', 'import numpy\na = numpy.arange(4.0)', 'a[1:] = -1; a *= 2', 'a.tolist()'],
  [
    'a pandas frame, in place',
    'import pandas\nf = pandas.DataFrame({"a": [1, 2]})',
    'f.loc[0, "a"] = 9; f["b"] = 1',
    'f.to_dict("list")',
  ],
  [
    'the state of a module',
    'import json',
    'json.mine = 1; json.dumps = None',
    '[hasattr(json, "mine"), repr(json.dumps)]',
  ],
  ['builtins', 'import builtins', 'builtins.mine = 1; builtins.len = None', '["mine" in vars(builtins), repr(len)]'],
  ['imports', 'import sys', 'import wave', '["wave" in sys.modules, "wave" in globals()]'],
  ['the import path', 'import sys', 'sys.path.insert(0, "/mine")', 'sys.path'],
  ['random numbers', 'import random\nrandom.seed(7)', 'random.random()', 'hash(random.getstate())'],
  [
    "numpy's random numbers",
    'import numpy\nnumpy.random.seed(7)\nown = numpy.random.default_rng(7)',
    'numpy.random.rand(); own.random()',
    '[numpy.random.get_state()[1].tolist()[:4], numpy.random.get_state()[2], str(own.bit_generator.state)]',
  ],
  ['the working folder', 'import os', 'os.mkdir("sub"); os.chdir("sub")', 'os.getcwd()'],
  [
    'the environment, and that of children',
    'import os, subprocess\nos.environ["KEPT"] = "1"',
    'os.environ["KEPT"] = "2"; os.environ["MORE"] = "1"',
    '[os.environ["KEPT"], "MORE" in os.environ, subprocess.run(["sh", "-c", "echo $KEPT$MORE"], capture_output=True).stdout]',
  ],
  ['the umask', 'import os', 'os.umask(0o077)', 'next(line for line in open("/proc/self/status") if "Umask" in line)'],
  ['the recursion limit', 'import sys', 'sys.setrecursionlimit(500)', 'sys.getrecursionlimit()'],
  ['the decimal context', 'import decimal', 'decimal.getcontext().prec = 3', 'decimal.getcontext().prec'],
  ['a context variable', 'import contextvars\nv = contextvars.ContextVar("v", default=1)', 'v.set(2)', 'v.get()'],
  [
    'a generator',
    'def numbers():\n    for n in range(9): yield n\ng = numbers()\nnext(g)',
    'next(g); next(g)',
    'g.gi_frame.f_locals["n"]',
  ],
  ['an iterator', 'i = iter([1, 2, 3])\nnext(i)', 'next(i)', 'i.__length_hint__()'],
  [
    'signal handlers',
    'import signal\ndef mine(*_): pass\nsignal.signal(signal.SIGUSR1, mine);',
    'signal.signal(signal.SIGUSR1, signal.SIG_IGN); signal.signal(signal.SIGUSR2, mine)',
    '[str(signal.getsignal(number)) for number in (signal.SIGUSR1, signal.SIGUSR2)]',
  ],
  ['a lock', 'import threading\nlock = threading.Lock()', 'lock.acquire()', 'lock.locked()'],
  [
    'a database in memory',
    'import sqlite3\ndb = sqlite3.connect(":memory:")\ndb.execute("create table t (n)")',
    'db.execute("insert into t values (1)")',
    'db.execute("select count(*) from t").fetchone()[0]',
  ],
  ['memory of C code', 'import ctypes\nbuffer = ctypes.create_string_buffer(8)', 'buffer.value = b"x"', 'buffer.value'],
];

/** What only a copy of all memory brings back: an executor without one says so by `trueRollback: false`. */
const inMemoryAlone: ReadonlySet<string> = new Set([
  'the state of a module',
  'a context variable',
  'a generator',
  'an iterator',
  'a lock',
  'a database in memory',
]);

function trueRollback(open: Open): void {
  describe('a rollback takes back', () => {
    it.each(changes)('%s', async (name, before, change, look) => {
      await using session = await open();
      if (await lacksFor(session, before, change, look)) return;
      await session.run(before);
      const first = await evaluate(session, look);
      const changed = await session.run(`${change}\n${look}`, { transaction: 'rollback_always' });
      expect(changed).toMatchObject({ status: 'ok', transaction: 'rolled_back' });
      // Otherwise there is nothing to take back.
      expect(changed.value).not.toEqual(first);
      const stays = !session.capabilities.trueRollback && inMemoryAlone.has(name);
      expect(await evaluate(session, look)).toEqual(stays ? changed.value : first);
    });
  });
}

/** Without a copy of all memory, what a transaction could go back to ends with its kernel: the last save comes back. */
async function diedWithItsPast(session: Session, result: ResultEvent): Promise<boolean> {
  if (session.capabilities.trueRollback || !result.death) return false;
  expect(result.transaction).toBeUndefined();
  const next = await session.run('"y" in dir()');
  expect(next).toMatchObject({ status: 'ok', value: false, recovered: { cause: { code: result.death.code } } });
  return true;
}

function failures(open: Open): void {
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
    it.each(kinds)('%s, with what it had printed in its result', async (_name, code, options, told) => {
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

    it('an interrupt of code that ignores it, and is killed', async () => {
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

    it('a SyntaxError, which is told as rolled back though nothing ran', async () => {
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

    it('death again and again, which counts as no crash loop', async () => {
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

    it('and sys.exit without a code is none', async () => {
      await using session = await open();
      await session.run('x = 10');
      const result = await session.run('x = 20\nimport sys; sys.exit()', { transaction: 'rollback_on_failure' });
      expect(result).toMatchObject({ status: 'ok', transaction: 'committed' });
      expect(await evaluate(session, 'x')).toBe(20);
    });
  });
}

function afterRollback(open: Open): void {
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

    it('the event loop works, before, in between and after', async () => {
      await using session = await open();
      const wait = 'import asyncio\nawait asyncio.sleep(0.001, "slept")';
      expect((await session.run(wait)).value).toBe('slept');
      expect(await session.run(wait, dry)).toMatchObject({ value: 'slept', transaction: 'rolled_back' });
      expect((await session.run(wait)).value).toBe('slept');
      const wake =
        'loop = asyncio.get_event_loop()\nloop.call_soon_threadsafe(lambda: None)\nawait asyncio.sleep(0, 1)';
      expect((await session.run(wake)).value).toBe(1);
    });

    it('a task that an earlier cell left goes on from where it was', async () => {
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

    it('input() asks as before, and a name `input` of the code stays the code’s', async () => {
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

    it('getpass and sys.stdin ask as before', async () => {
      await using session = await open();
      await session.run('x = 1', dry);
      const onInput = ({ password }: { password: boolean }) => (password ? 'secret' : 'line');
      const code = 'import getpass, sys\n[getpass.getpass(), sys.stdin.readline()]';
      expect((await session.run(code, { onInput })).value).toEqual(['secret', 'line\n']);
    });

    it('an interrupt stops the code, and keeps the state', async () => {
      await using session = await open();
      await session.run('x = 1');
      await session.run('x = 2', dry);
      const { result } = await runUntilReady(session, 'x += 1\nprint("ready", flush=True)\nwhile True: pass');
      expect(await session.interrupt()).toBe(true);
      expect(await result).toMatchObject({ status: 'interrupted', error: { name: 'KeyboardInterrupt' } });
      expect(await evaluate(session, 'x')).toBe(2);
    });

    it('a timeout stops the code, and keeps the state', async () => {
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

    it('children can be started, and what they print comes out', async () => {
      await using session = await open();
      if (await lacks(session, 'subprocesses')) return;
      await session.run('import subprocess\nprint("before")');
      await session.run('subprocess.run(["echo", "dry"])', dry);
      const result = await session.run('print("a")\nsubprocess.run(["echo", "child"]).returncode');
      expect(result).toMatchObject({ value: 0, stdout: 'a\nchild\n' });
    });

    it('the code of a rolled-back cell runs on in no process', async () => {
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

    it('variables and completion know the names of before', async () => {
      await using session = await open();
      await session.run('apple = 1');
      await session.run('apricot = 2; del apple', dry);
      expect((await session.variables()).map(({ name }) => name)).toEqual(['apple']);
      expect((await session.complete('ap')).matches.map(({ text }) => text)).toEqual(['apple']);
    });

    it('a restart begins with nothing, and a rollback works there too', async () => {
      await using session = await open();
      await session.run('x = 1');
      await session.run('x = 2', dry);
      await session.restart();
      await session.run('x = 3');
      await session.run('x = 4', dry);
      expect(await evaluate(session, 'x')).toBe(3);
    });

    it('another can follow at once, fifty times, also right after prints', async () => {
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
    it('children that were started before it are still the code’s own', async () => {
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

    it('random numbers go on as if there had been no transaction', async () => {
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

function explicit(open: Open): void {
  const own = { transaction: 'explicit' } as const;
  const openCode = { code: 'TRANSACTION_OPEN' };
  const none = { code: 'NO_TRANSACTION' };

  describe('an explicit transaction', () => {
    it('is kept by commit()', async () => {
      await using session = await open();
      await session.run('x = 10');
      expect(await session.run('x = 20; y = 30', own)).toMatchObject({ status: 'ok', transaction: 'open' });
      await session.commit();
      expect(await evaluate(session, LOOK)).toEqual([20, true]);
      await expect(session.commit()).rejects.toMatchObject(none);
      await expect(session.rollback()).rejects.toMatchObject(none);
    });

    it('is taken back by rollback()', async () => {
      await using session = await open();
      await session.run('x = 10; a = [1]');
      await session.run('x = 20; y = 30; a.append(2)', own);
      await session.rollback();
      expect(await evaluate(session, '[x, "y" in dir(), a]')).toEqual([10, false, [1]]);
      await expect(session.rollback()).rejects.toMatchObject(none);
      await expect(session.commit()).rejects.toMatchObject(none);
    });

    it('keeps the next cells out until it is decided, also those that waited already', async () => {
      await using session = await open();
      await session.run('x = 10; ran = []');
      const first = session.run('x = 20', own);
      const waiting = session.run('ran.append("waiting")');
      const refused = expect(waiting).rejects.toMatchObject(openCode);
      expect((await first).transaction).toBe('open');
      await refused;
      await expect(session.run('ran.append("later")')).rejects.toMatchObject(openCode);
      await expect(session.run('ran.append("nested")', own)).rejects.toMatchObject(openCode);
      await session.commit();
      expect(await evaluate(session, '[x, ran]')).toEqual([20, []]);
    });

    it('can be looked at before it is decided', async () => {
      await using session = await open();
      await session.run('x = 10');
      await session.run('x = 20; apple = 1', own);
      expect((await session.variables()).map(({ name, preview }) => [name, preview])).toEqual(
        expect.arrayContaining([
          ['x', '20'],
          ['apple', '1'],
        ]),
      );
      expect((await session.complete('app')).matches.map(({ text }) => text)).toContain('apple');
      await session.rollback();
      expect((await session.variables()).map(({ name }) => name)).toEqual(['x']);
    });

    it('stays open where the code raises, and takes back what it did before that', async () => {
      await using session = await open();
      await session.run('x = 10');
      expect(await session.run('x = 20; 1 / 0', own)).toMatchObject({ status: 'error', transaction: 'open' });
      await expect(session.run('1')).rejects.toMatchObject(openCode);
      await session.rollback();
      expect(await evaluate(session, 'x')).toBe(10);
    });

    it('stays open where the code is interrupted', async () => {
      await using session = await open();
      await session.run('x = 10');
      const { result } = await runUntilReady(session, 'x = 20\nprint("ready", flush=True)\nwhile True: pass', own);
      await session.interrupt();
      expect(await result).toMatchObject({ status: 'interrupted', transaction: 'open' });
      await session.commit();
      expect(await evaluate(session, 'x')).toBe(20);
    });

    it('can be followed by another', async () => {
      await using session = await open();
      await session.run('x = 0');
      for (let round = 1; round <= 10; round++) {
        await session.run('x += 1', own);
        await (round % 2 ? session.commit() : session.rollback());
      }
      expect(await evaluate(session, 'x')).toBe(5);
    });

    it('is decided once, however many ask at the same time', async () => {
      await using session = await open();
      await session.run('x = 10');
      await session.run('x = 20', own);
      const asked = await Promise.allSettled([session.rollback(), session.commit(), session.rollback()]);
      expect(asked.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected']);
      expect(await evaluate(session, 'x')).toBe(10);
    });

    it('is rolled back by the death of its own cell, and nothing is left to decide', async () => {
      await using session = await open();
      await session.run('x = 10');
      const result = await session.run('x = 20\nimport os; os._exit(3)', own);
      expect(result.status).toBe('died');
      if (await diedWithItsPast(session, result)) return;
      expect(result.transaction).toBe('rolled_back');
      await expect(session.commit()).rejects.toMatchObject(none);
      expect(await evaluate(session, 'x')).toBe(10);
    });

    it('is rolled back where its kernel dies while it waits, and the next result tells', async () => {
      await using session = await open();
      if (await lacks(session, 'subprocesses')) return;
      await session.run('x = 10');
      const pid = await kernelPid(session);
      await session.run('x = 20; y = 30', own);
      kill(pid);
      // Until the death is known, a cell is kept out as before.
      const next = await vi.waitUntil(() => session.run(LOOK).catch(() => undefined), { timeout: 20_000 });
      expect(next).toMatchObject({ value: [10, false], recovered: { cause: { signal: 'SIGKILL' } } });
      await expect(session.commit()).rejects.toMatchObject(none);
    });

    it('cannot be committed once its kernel has died', async () => {
      await using session = await open();
      if (await lacks(session, 'subprocesses')) return;
      await session.run('x = 10');
      const pid = await kernelPid(session);
      await session.run('x = 20', own);
      kill(pid);
      // Nobody answers: by then the session knows.
      await session.variables().catch((error) => expect(error).toMatchObject({ code: 'KERNEL_DIED' }));
      await expect(session.commit()).rejects.toMatchObject(none);
      expect(await evaluate(session, 'x')).toBe(10);
    });

    it.each<[string, 'reset' | 'restart']>([
      ['a reset', 'reset'],
      ['a restart', 'restart'],
    ])('is ended by %s, which clears all names', async (_name, how) => {
      await using session = await open();
      await session.run('x = 10');
      await session.run('y = 30', own);
      await session[how]();
      await expect(session.commit()).rejects.toMatchObject(none);
      expect(await evaluate(session, '["x" in dir(), "y" in dir()]')).toEqual([false, false]);
    });

    it('is rolled back by hibernation', async () => {
      await using session = await open();
      await session.run('x = 10');
      await session.run('x = 20; y = 30', own);
      await session.hibernate();
      await expect(session.commit()).rejects.toMatchObject(none);
      expect(await session.run(LOOK)).toMatchObject({ value: [10, false], woken: {} });
    });

    it('is rolled back by the end of its session', async () => {
      const dataDir = await scratchFolder();
      const session = await open({ dataDir });
      await session.run('x = 10');
      await session.run('x = 20; y = 30', own);
      await session.close();
      await using next = await open({ dataDir });
      expect(await next.run(LOOK)).toMatchObject({ value: [10, false], woken: {} });
    });

    it('is not what a save writes', async () => {
      await using session = await open();
      if (await lacks(session, 'subprocesses')) return;
      await session.run('x = 10');
      await session.save();
      const pid = await kernelPid(session);
      await session.run('x = 20', own);
      await session.save();
      const saves = (await session.checkpoints()).filter(({ automatic }) => automatic);
      expect(saves).toHaveLength(1);
      await session.rollback();
      expect(residents(session)).not.toContain(pid);
      expect(await evaluate(session, 'x')).toBe(10);
    });
  });
}

function threads(open: Open): void {
  const start =
    'import threading\ngo = threading.Event()\nt = threading.Thread(target=go.wait, name="my-worker")\nt.start()';

  describe('a thread that runs', () => {
    it.each<Policy>(['rollback_on_failure', 'commit_on_success', 'rollback_always', 'explicit'])(
      'makes %s fail with FORK_UNSAFE and its name before the cell runs, until it has ended',
      async (transaction) => {
        await using session = await open();
        if (await lacks(session, 'threads')) return;
        await session.run(`x = 10\n${start}`);
        const code = 'x = 20\nopen("ran", "w").close()';
        await expect(session.run(code, { transaction })).rejects.toMatchObject({
          code: 'FORK_UNSAFE',
          message: expect.stringContaining('my-worker'),
        });
        expect(await evaluate(session, 'import os\n[x, os.path.exists("ran")]')).toEqual([10, false]);
        expect((await session.run('go.set(); t.join()')).status).toBe('ok');
        const after = await session.run(`${code}\nraise ValueError`, { transaction });
        expect(after.status).toBe('error');
        if (transaction === 'explicit') await session.rollback();
        expect(await evaluate(session, '[x, os.path.exists("ran")]')).toEqual([10, true]);
      },
    );

    it('names every thread, and also keeps checkpoints and forks from being made', async () => {
      await using session = await open();
      if (await lacks(session, 'threads')) return;
      await session.run(`${start}\nthreading.Timer(1000, print).start()\nthreading.enumerate()[-1].name = "my-timer"`);
      const unsafe = { code: 'FORK_UNSAFE', message: expect.stringMatching(/my-worker, my-timer/) };
      await expect(session.checkpoint()).rejects.toMatchObject(unsafe);
      await expect(session.fork({ agentKey: 'other' })).rejects.toMatchObject(unsafe);
      expect(await session.checkpoints()).toEqual([]);
      await session.run(
        'go.set(); threading.enumerate()[-1].cancel()\nfor one in threading.enumerate()[1:]: one.join()',
      );
      expect(await session.checkpoint()).toMatchObject({ kind: 'live' });
    });

    it('does not keep names from being saved', async () => {
      await using session = await open();
      if (await lacks(session, 'threads')) return;
      await session.run(`x = 10\n${start}`);
      await session.save();
      const durable = await session.checkpoint({ name: 'with a thread', durable: true });
      expect(durable.saved).toContain('x');
      await session.run('x = 20; go.set(); t.join()');
      await session.restore('with a thread');
      expect(await evaluate(session, 'x')).toBe(10);
    });

    it('that ended in the cell before does not count', async () => {
      await using session = await open();
      if (await lacks(session, 'threads')) return;
      await session.run('import threading\nx = 0');
      for (let round = 0; round < 20; round++) {
        await session.run('t = threading.Thread(target=int); t.start(); t.join()');
        const { transaction } = await session.run('x = 1', { transaction: 'rollback_always' });
        expect(transaction).toBe('rolled_back');
      }
      expect(await evaluate(session, 'x')).toBe(0);
    });

    it('and was started by a rolled-back cell is gone', async () => {
      await using session = await open();
      if (await lacks(session, 'threads')) return;
      await session.run('x = 10');
      const result = await session.run(`x = 20\n${start}`, { transaction: 'rollback_always' });
      expect(result).toMatchObject({ status: 'ok', transaction: 'rolled_back' });
      expect(await evaluate(session, 'import threading\n[x, threading.active_count()]')).toEqual([10, 1]);
      expect((await session.run('x = 30', { transaction: 'rollback_always' })).transaction).toBe('rolled_back');
    });
  });
}
