"""Values in a checkpoint."""

from __future__ import annotations

import math
import sys

from .test_durable import Case, Kernel


class Values(Case):
    def test_plain_values_come_back_as_they_were(self) -> None:
        text = (
            "i = 7; big = 3 ** 500; f = 1.5; nan = float('nan'); inf = float('-inf'); c = 1 + 2j\n"
            "none = None; yes = True; dots = ...\n"
            "s = 'text \\u20ac \\ud800'; b = b'\\0\\xff'; ba = bytearray(b'ab'); t = (1, (2, [3]))\n"
            "l = [1, 'a', None]; e = ()\n"
            "d = {1: 'a', (1, 2): {'x': []}}; st = {1, 2}; fs = frozenset('ab'); r = range(2, 9, 3)\n"
            "sl = slice(1, None, 2)"
        )
        kernel = Kernel(text)
        back = self.load(self.save(kernel))
        self.assert_all_saved()
        for name in (
            "i",
            "big",
            "f",
            "inf",
            "c",
            "none",
            "yes",
            "dots",
            "s",
            "b",
            "ba",
            "t",
            "l",
            "e",
            "d",
            "st",
            "fs",
            "r",
            "sl",
        ):
            self.assertEqual(back.names[name], kernel.names[name], name)
            self.assertIs(type(back.names[name]), type(kernel.names[name]), name)
        self.assertTrue(math.isnan(back.names["nan"]))

    def test_values_of_the_standard_library_come_back(self) -> None:
        kernel = Kernel(
            "import collections, datetime, decimal, fractions, pathlib, re, uuid, array, io, queue, string, random\n"
            "when = datetime.datetime(2024, 2, 29, 1, 2, 3, 4, datetime.timezone(datetime.timedelta(hours=2)))\n"
            "span = datetime.timedelta(days=1); dec = decimal.Decimal('1.10'); frac = fractions.Fraction(1, 3)\n"
            "path = pathlib.Path('/a/b'); pattern = re.compile('a+', re.I); ident = uuid.UUID(int=5)\n"
            "arr = array.array('d', [1, 2])\n"
            "od = collections.OrderedDict(b=1, a=2); dd = collections.defaultdict(list, a=[1])\n"
            "cnt = collections.Counter('aab')\n"
            "dq = collections.deque([1, 2], maxlen=5); cm = collections.ChainMap({'a': 1}, {'b': 2})\n"
            "buf = io.BytesIO(b'abc')\n"
            "buf.seek(1); text = io.StringIO('xyz'); rnd = random.Random(5)\n"
            "err = ValueError('no', 3); it = iter([1, 2, 3]); next(it)"
        )
        back = self.load(self.save(kernel))
        self.assert_all_saved()
        for name in ("when", "span", "dec", "frac", "path", "pattern", "ident", "arr", "od", "dd", "cnt", "dq", "cm"):
            self.assertEqual(back.names[name], kernel.names[name], name)
        self.assert_all(
            back,
            "dd['new'] == []",
            "list(od) == ['b', 'a']",
            "dq.maxlen == 5",
            "buf.read() == b'bc'",
            "text.read() == 'xyz'",
        )
        self.assert_all(back, "err.args == ('no', 3)", "list(it) == [2, 3]", "dec.as_tuple().exponent == -2")
        self.assertEqual(back.get("rnd.random()"), kernel.get("rnd.random()"))

    def test_an_imported_name_of_a_module_is_a_value(self) -> None:
        kernel = self.again("from math import pi, sin\nfrom os import environ as env, sep")
        self.assert_all(kernel, "pi > 3.14", "sin(0) == 0", "sep == '/'")

    def test_a_long_linked_list_comes_back(self) -> None:
        # Python 3.12 bounds the recursion of C code, and nothing can raise that bound.
        length = 400 if sys.version_info[:2] == (3, 12) else 3000
        kernel = self.again(
            "class N:\n    def __init__(self, next): self.next = next\nhead = None\n"
            "for _ in range(%d): head = N(head)" % length
        )
        self.assert_all_saved()
        kernel.run("n, at = 0, head\nwhile at: n, at = n + 1, at.next")
        self.assertEqual(kernel.get("n"), length)

    def test_loggers_and_standard_streams_are_those_of_the_process_that_loads(self) -> None:
        kernel = self.again(
            "import logging, sys\nlog = logging.getLogger('a.b')\nout = sys.stdout\nheld = [sys.stderr]"
        )
        self.assert_all(kernel, "log is logging.getLogger('a.b')", "out is sys.stdout", "held[0] is sys.stderr")
        self.assert_all_saved()

    def test_unheld_locks_come_back_fresh(self) -> None:
        kernel = self.again(
            "import threading, queue\n"
            "lock = threading.Lock(); rlock = threading.RLock(); event = threading.Event(); event.set()\n"
            "q = queue.Queue(); q.put(1); cond = threading.Condition(); sem = threading.Semaphore(3)\n"
            "class Safe:\n    def __init__(self): self.lock, self.n = threading.Lock(), 3\nsafe = Safe()",
        )
        self.assert_all_saved()
        self.assert_all(
            kernel,
            "lock.acquire(False)",
            "rlock.acquire(False)",
            "event.is_set()",
            "q.get_nowait() == 1",
            "sem.acquire(False)",
        )
        self.assert_all(kernel, "safe.lock.acquire(False)", "safe.n == 3")
