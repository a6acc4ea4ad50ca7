/** Everything that a cell can change in its kernel is taken back by a rollback. */

import { describe, expect, it } from 'vitest';
import type { Open } from '../../support/kernels/session.ts';
import { evaluate } from '../../support/kernels/state.ts';
import { lacksFor } from '../../support/kernels/unsupported.ts';

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

export function rollbackContract(open: Open): void {
  describe('a rollback reverts', () => {
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
