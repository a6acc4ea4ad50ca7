"""Values in a checkpoint, and what they share with each other."""

from __future__ import annotations

import math
import sys
import unittest

from .test_durable import Case, Kernel, has, needs_cloudpickle, needs_numpy, needs_pandas


class Values(Case):
    def test_plain_values_come_back_as_they_were(self) -> None:
        text = (
            "i = 7; big = 3 ** 500; f = 1.5; nan = float('nan'); inf = float('-inf'); c = 1 + 2j; none = None; yes = True; dots = ...\n"
            "s = 'text \\u20ac \\ud800'; b = b'\\0\\xff'; ba = bytearray(b'ab'); t = (1, (2, [3])); l = [1, 'a', None]; e = ()\n"
            "d = {1: 'a', (1, 2): {'x': []}}; st = {1, 2}; fs = frozenset('ab'); r = range(2, 9, 3); sl = slice(1, None, 2)"
        )
        kernel = Kernel(text)
        back = self.load(self.save(kernel))
        self.assert_all_saved()
        for name in ("i", "big", "f", "inf", "c", "none", "yes", "dots", "s", "b", "ba", "t", "l", "e", "d", "st", "fs", "r", "sl"):
            self.assertEqual(back.names[name], kernel.names[name], name)
            self.assertIs(type(back.names[name]), type(kernel.names[name]), name)
        self.assertTrue(math.isnan(back.names["nan"]))

    def test_values_of_the_standard_library_come_back(self) -> None:
        kernel = Kernel(
            "import collections, datetime, decimal, fractions, pathlib, re, uuid, array, io, queue, string, random, zoneinfo\n"
            "when = datetime.datetime(2024, 2, 29, 1, 2, 3, 4, datetime.timezone(datetime.timedelta(hours=2)))\n"
            "span = datetime.timedelta(days=1); dec = decimal.Decimal('1.10'); frac = fractions.Fraction(1, 3)\n"
            "path = pathlib.Path('/a/b'); pattern = re.compile('a+', re.I); ident = uuid.UUID(int=5); arr = array.array('d', [1, 2])\n"
            "od = collections.OrderedDict(b=1, a=2); dd = collections.defaultdict(list, a=[1]); cnt = collections.Counter('aab')\n"
            "dq = collections.deque([1, 2], maxlen=5); cm = collections.ChainMap({'a': 1}, {'b': 2}); buf = io.BytesIO(b'abc')\n"
            "buf.seek(1); text = io.StringIO('xyz'); rnd = random.Random(5); err = ValueError('no', 3); it = iter([1, 2, 3]); next(it)"
        )
        back = self.load(self.save(kernel))
        self.assert_all_saved()
        for name in ("when", "span", "dec", "frac", "path", "pattern", "ident", "arr", "od", "dd", "cnt", "dq", "cm"):
            self.assertEqual(back.names[name], kernel.names[name], name)
        self.assert_all(back, "dd['new'] == []", "list(od) == ['b', 'a']", "dq.maxlen == 5", "buf.read() == b'bc'", "text.read() == 'xyz'")
        self.assert_all(back, "err.args == ('no', 3)", "list(it) == [2, 3]", "dec.as_tuple().exponent == -2")
        self.assertEqual(back.get("rnd.random()"), kernel.get("rnd.random()"))

    def test_an_imported_name_of_a_module_is_a_value(self) -> None:
        kernel = self.again("from math import pi, sin\nfrom os import environ as env, sep")
        self.assert_all(kernel, "pi > 3.14", "sin(0) == 0", "sep == '/'")

    def test_a_long_linked_list_comes_back(self) -> None:
        # Python 3.12 bounds the recursion of C code, and nothing can raise that bound.
        length = 400 if sys.version_info[:2] == (3, 12) else 3000
        kernel = self.again("class N:\n    def __init__(self, next): self.next = next\nhead = None\nfor _ in range(%d): head = N(head)" % length)
        self.assert_all_saved()
        kernel.run("n, at = 0, head\nwhile at: n, at = n + 1, at.next")
        self.assertEqual(kernel.get("n"), length)

    def test_loggers_and_standard_streams_are_those_of_the_process_that_loads(self) -> None:
        kernel = self.again("import logging, sys\nlog = logging.getLogger('a.b')\nout = sys.stdout\nheld = [sys.stderr]")
        self.assert_all(kernel, "log is logging.getLogger('a.b')", "out is sys.stdout", "held[0] is sys.stderr")
        self.assert_all_saved()

    def test_unheld_locks_come_back_fresh(self) -> None:
        kernel = self.again(
            "import threading, queue\nlock = threading.Lock(); rlock = threading.RLock(); event = threading.Event(); event.set()\n"
            "q = queue.Queue(); q.put(1); cond = threading.Condition(); sem = threading.Semaphore(3)\n"
            "class Safe:\n    def __init__(self): self.lock, self.n = threading.Lock(), 3\nsafe = Safe()",
        )
        self.assert_all_saved()
        self.assert_all(kernel, "lock.acquire(False)", "rlock.acquire(False)", "event.is_set()", "q.get_nowait() == 1", "sem.acquire(False)")
        self.assert_all(kernel, "safe.lock.acquire(False)", "safe.n == 3")


class Sharing(Case):
    def test_an_object_under_two_names_stays_one(self) -> None:
        kernel = self.again("a = []; b = [a]; c = {'a': a, 'b': b}; d = e = {1}")
        kernel.run("a.append(1); d.add(2)")
        self.assert_all(kernel, "b[0] is a", "c['a'] is a and c['b'] is b", "d is e", "e == {1, 2}")

    def test_an_object_that_two_names_share_without_a_name_stays_one(self) -> None:
        kernel = self.again("x = [1]; a = {'x': x}; b = (x, 2); t = ([5],); u = [t]; v = {'t': t}; del x, t")
        self.assert_all(kernel, "a['x'] is b[0]", "u[0] is v['t']", "u[0][0] is v['t'][0]")

    def test_circles_come_back(self) -> None:
        kernel = self.again(
            "a = []; a.append(a); p = {}; q = {'p': p}; p['q'] = q; t = ([],); t[0].append(t)",
            "class N: pass\nx, y = N(), N()\nx.other, y.other = y, x",
        )
        self.assert_all(kernel, "a[0] is a", "p['q'] is q and q['p'] is p", "t[0][0] is t", "x.other is y and y.other is x")

    def test_names_that_share_nothing_are_segments_of_their_own(self) -> None:
        segments = self.save(Kernel("shared = [1]\na, b = [shared], [shared]\nx = {'k': 'word'}\ny = ['word']\nhidden = [0]\nm, n = {'h': hidden}, [hidden]\ndel hidden"))
        groups = [header["names"] for header, _ in segments if header["kind"] == "pickle"]
        self.assertEqual(sorted(map(sorted, groups)), [["a"], ["b"], ["m", "n"], ["shared"], ["x"], ["y"]])

    def test_a_name_for_a_class_of_a_module_binds_nothing_to_it(self) -> None:
        segments = self.save(Kernel("from collections import OrderedDict, defaultdict\nkind = int\na = OrderedDict(x=1)\nb = defaultdict(int)\nc = [int, OrderedDict]"))
        kernel = self.load([(header, data) for header, data in segments if header["names"] not in (["kind"], ["OrderedDict"])])
        self.assert_all(kernel, "a == {'x': 1}", "b['k'] == 0", "c[0](2.5) == 2")

    def test_many_names_that_refer_to_each_other_take_little_time(self) -> None:
        kernel = self.again("for i in range(300):\n    globals()['p%d' % i] = p = []\n    globals()['q%d' % i] = [p]\n    p.append(globals()['q%d' % i])\ndel p")
        self.assert_all(kernel, "p299[0] is q299 and q299[0] is p299")
        self.assertEqual(len(self.report["saved"]), 601)

    def test_views_of_dicts_stay_views(self) -> None:
        kernel = self.again(
            "import collections, types\nd = {'a': 1}; keys = d.keys(); items = d.items(); values = d.values(); proxy = types.MappingProxyType(d)\n"
            "od = collections.OrderedDict(x=1); okeys = od.keys()"
        )
        kernel.run("d['b'] = 2; od['y'] = 2")
        self.assert_all(kernel, "list(keys) == ['a', 'b']", "len(items) == 2", "list(values) == [1, 2]", "proxy['b'] == 2", "list(okeys) == ['x', 'y']")

    def test_the_default_of_a_function_is_the_object_that_has_a_name(self) -> None:
        kernel = self.again("cache = {}\ndef get(k, store=cache): return store.setdefault(k, len(store))\nget('a')")
        kernel.run("get('b')")
        if has("cloudpickle"):
            self.assertEqual(kernel.get("cache"), {"a": 0, "b": 1})
        self.assert_all_saved()

    def test_a_weak_dictionary_keeps_what_others_hold(self) -> None:
        kernel = self.again("import weakref\nclass C: pass\nc = C(); w = weakref.WeakValueDictionary(c=c); gone = weakref.WeakValueDictionary(g=C())")
        self.assert_all(kernel, "w['c'] is c", "len(gone) == 0")


@needs_numpy
class Arrays(Case):
    def test_arrays_of_all_kinds_come_back(self) -> None:
        kernel = Kernel(
            "import numpy as np\na = np.arange(12.).reshape(3, 4); f = np.asfortranarray(a); o = np.array([1, 'a', None], dtype=object)\n"
            "s = np.array([(1, 2.5)], dtype=[('x', 'i4'), ('y', 'f8')]); z = np.zeros((0, 3)); n = np.float32(1.5); text = np.array(['ab', 'c'])\n"
            "when = np.array(['2024-01-01'], dtype='M8[D]'); mask = np.ma.array([1, 2], mask=[0, 1]); step = np.arange(10)[::3].copy(); sin = np.sin\n"
            "back = np.arange(6)[::-1]; kind = np.dtype('i8'); zero = np.array(5)"
        )
        back = self.load(self.save(kernel))
        self.assert_all_saved()
        for name in ("a", "f", "o", "s", "z", "n", "text", "when", "mask", "step", "back", "kind", "zero"):
            same = kernel.names["np"].array_equal(back.names[name], kernel.names[name]) if name != "kind" else True
            self.assertTrue(same, name)
            self.assertEqual(getattr(back.names[name], "dtype", None), getattr(kernel.names[name], "dtype", None), name)
        self.assert_all(back, "f.flags.f_contiguous", "sin is np.sin", "mask[1] is np.ma.masked", "a.flags.writeable")

    def test_a_view_of_a_named_array_stays_a_view(self) -> None:
        kernel = self.again(
            "import numpy as np\na = np.zeros((4, 5)); row = a[1]; part = a[1:3, ::2]; t = a.T; raw = a.view('i8'); rev = a[::-1, ::-1]\n"
            "f = np.zeros((3, 2), order='F'); col = f[:, 1]; o = np.array([None] * 4); tail = o[1::2]\n"
            "fixed = a[0]; fixed.flags.writeable = False; flat = a.ravel(); copy = a.copy()"
        )
        self.assert_all_saved()
        kernel.run("a[1, 2] = 7; a[0, 0] = 3; f[1, 1] = 5; o[3] = 'x'")
        self.assert_all(
            kernel, "row[2] == 7", "part[0, 1] == 7", "t[2, 1] == 7", "raw[1, 2] != 0", "rev[2, 2] == 7", "col[1] == 5", "tail[1] == 'x'",
            "fixed[0] == 3 and not fixed.flags.writeable", "flat[7] == 7", "not copy.any()",
        )
        kernel.run("part[1, 0] = 9; tail[0] = 'y'")
        self.assert_all(kernel, "a[2, 0] == 9", "o[1] == 'y'", "np.shares_memory(row, a)")

    def test_views_of_an_array_without_a_name_stay_together(self) -> None:
        kernel = self.again("import numpy as np\nbase = np.arange(10); a, b = base[2:6], base[4:]; pair = [base[:3], base[1:]]; del base; alone = np.arange(10)[3:5]")
        kernel.run("a[2] = 100; pair[0][1] = 50")
        self.assert_all(kernel, "b[0] == 100", "pair[1][0] == 50", "list(alone) == [3, 4]")
        self.assert_all_saved()

    def test_an_array_in_the_memory_of_a_bytearray_stays_there(self) -> None:
        kernel = self.again("import numpy as np\nraw = bytearray(16); nums = np.frombuffer(raw, 'u2'); fixed = np.frombuffer(b'abcd', 'u1')")
        kernel.run("raw[2] = 5")
        self.assert_all(kernel, "nums[1] == 5", "list(fixed) == [97, 98, 99, 100]")

    def test_views_stay_views_when_a_restored_kernel_is_saved_again(self) -> None:
        first = self.again("import numpy as np\na = np.zeros(6); v = a[2:]")
        first.cells = {}
        second = self.load(self.save(first))
        second.run("a[3] = 1")
        self.assert_all(second, "v[1] == 1")

    def test_a_view_of_another_type_is_told_where_it_would_be_unlinked(self) -> None:
        self.save(Kernel("import numpy as np\na = np.zeros((2, 2)); m = np.asmatrix(a); alone = np.matrix([[1]])"))
        self.assertEqual(self.lost(), {"m": "it shares memory with 'a', which only plain numpy arrays can keep"})

    def test_a_memory_mapped_array_is_told(self) -> None:
        self.save(Kernel("import numpy as np, tempfile\nm = np.memmap(tempfile.TemporaryFile(), 'u1', 'w+', shape=(4,)); held = {'m': m}; v = np.asarray(m)[1:]"))
        self.assertEqual(sorted(self.lost()), ["held", "m", "v"])
        self.assertIn("memory-mapped", self.lost()["v"])


@needs_pandas
class Frames(Case):
    def test_frames_series_and_indexes_come_back(self) -> None:
        kernel = Kernel(
            "import pandas as pd\ndf = pd.DataFrame({'a': [1, 2, 3], 'b': list('xyz'), 'c': pd.to_datetime(['2024-01-01'] * 3), 'd': [1.5, None, 3]},"
            " index=pd.Index([5, 6, 7], name='id'))\ns = pd.Series([1, 2], name='s'); cat = pd.Series(['u', 'v', 'u'], dtype='category')\n"
            "multi = df.set_index(['a', 'b']); grouped = df.groupby('a').sum(numeric_only=True); ts = pd.Timestamp('2024-05-05', tz='UTC')\n"
            "big = pd.Series([1, None], dtype='Int64'); empty = pd.DataFrame()"
        )
        back = self.load(self.save(kernel))
        self.assert_all_saved()
        for name in ("df", "s", "cat", "multi", "grouped", "big", "empty"):
            self.assertTrue(back.names[name].equals(kernel.names[name]), name)
            self.assertEqual(str(getattr(back.names[name], "dtypes", "")), str(getattr(kernel.names[name], "dtypes", "")), name)
        self.assert_all(back, "df.index.name == 'id'", "ts.tz is not None")

    def test_an_array_in_the_memory_of_a_frame_stays_there(self) -> None:
        kernel = Kernel("import pandas as pd, numpy as np\ndf = pd.DataFrame({'a': np.zeros(3), 'b': np.ones(3)}); values = df.values\n")
        shares = kernel.get("np.shares_memory(values, df['a'].to_numpy())")
        back = self.load(self.save(kernel))
        self.assert_all_saved()
        self.assertEqual(back.get("np.shares_memory(values, df['a'].to_numpy())"), shares)
        if kernel.get("values.flags.writeable"):
            kernel.run("values[0, 0] = 5")
            back.run("values[0, 0] = 5")
            self.assertEqual(back.get("df.iloc[0, 0]"), kernel.get("df.iloc[0, 0]"))


class Reasons(Case):
    def told(self, code: str) -> str:
        """Why `x` was lost, and `held` with it; `other` is always saved."""
        self.save(Kernel(code, "held = {'deep': [x]}\nother = 1"))
        lost = self.lost()
        self.assertIn("other", self.report["saved"])
        self.assertIn(lost["x"].replace(" cannot be saved", ""), lost["held"])
        return lost["x"]

    def test_live_resources_are_told(self) -> None:
        for code, words in (
            ("x = open('/etc/passwd')", "an open file ('/etc/passwd') cannot be saved"),
            ("import tempfile; x = tempfile.TemporaryFile()", "an open file cannot be saved"),
            ("import socket; x = socket.socket()", "a socket cannot be saved"),
            ("x = (i for i in range(3)); next(x)", "a generator cannot be saved"),
            ("async def f(): pass\nx = f()", "a coroutine cannot be saved"),
            ("async def f(): yield\nx = f()", "an asynchronous generator cannot be saved"),
            ("import threading; x = threading.Thread(target=print)", "a thread cannot be saved"),
            ("import threading; x = threading.Lock(); x.acquire()", "a lock that is held cannot be saved"),
            ("import threading; x = threading.RLock(); x.acquire()", "a lock that is held cannot be saved"),
            ("import threading; x = threading.local()", "thread-local data cannot be saved"),
            ("import subprocess; x = subprocess.Popen(['true']); x.wait()", "a subprocess cannot be saved"),
            ("from concurrent.futures import ThreadPoolExecutor; x = ThreadPoolExecutor(1)", "an executor cannot be saved"),
            ("from concurrent.futures import Future; x = Future()", "a future cannot be saved"),
            ("import asyncio; x = asyncio.new_event_loop()", "an event loop cannot be saved"),
            ("import asyncio; loop = asyncio.new_event_loop(); x = loop.create_future()", "an asyncio future cannot be saved"),
            ("x = memoryview(bytearray(3))", "a memoryview cannot be saved"),
            ("import mmap; x = mmap.mmap(-1, 10)", "a memory-mapped file cannot be saved"),
            ("import tempfile; x = tempfile.TemporaryDirectory()", "a temporary folder cannot be saved"),
            ("import weakref\nclass C: pass\nx = weakref.ref(C())", "a weak reference cannot be saved"),
            ("import weakref\nclass C: pass\nc = C(); x = weakref.proxy(c)", "a weak reference cannot be saved"),
            ("import ctypes; x = ctypes.CDLL(None)", "a loaded library cannot be saved"),
            ("import selectors; x = selectors.SelectSelector()", "a selector cannot be saved"),
            ("import contextvars; x = contextvars.ContextVar('x')", "a context variable cannot be saved"),
            ("import multiprocessing; x = multiprocessing.Value('i', 1)", "an object of multiprocessing.sharedctypes cannot be saved"),
            ("import sys; x = sys._getframe()", "a frame cannot be saved"),
        ):
            with self.subTest(code):
                self.assertEqual(self.told(code), words)

    @unittest.skipUnless(has("sqlite3") and has("_sqlite3"), "needs sqlite3")
    def test_database_connections_are_told(self) -> None:
        self.assertEqual(self.told("import sqlite3; x = sqlite3.connect(':memory:')"), "a database connection cannot be saved")

    def test_what_pickle_refuses_is_told_in_its_words(self) -> None:
        self.save(Kernel("import select\nx = select.poll()\nclass C:\n    def __reduce__(self): raise ValueError('not me\\nsecond line')\nc = C()\nok = 1"))
        self.assertRegex(self.lost()["x"], "cannot pickle .*poll")
        self.assertEqual((self.lost()["c"], self.report["saved"]), ("ValueError: not me", ["select", "C", "ok"]))

    def test_a_thread_that_runs_does_not_matter_to_the_others(self) -> None:
        kernel = Kernel("import threading\nstop = threading.Event()\nt = threading.Thread(target=stop.wait)\nt.start()\nx = 1")
        self.addCleanup(kernel.run, "stop.set(); t.join()")
        self.save(kernel)
        self.assertIn("x", self.report["saved"])
        self.assertEqual(self.lost()["t"], "a thread cannot be saved")

    @needs_cloudpickle
    def test_a_closure_over_something_live_is_told(self) -> None:
        self.save(Kernel("def make():\n    f = open('/dev/null')\n    return lambda: f\ng = make()"))
        self.assertEqual(self.lost()["g"], "it holds an open file ('/dev/null'), which cannot be saved")

    def test_a_read_file_never_becomes_text(self) -> None:
        self.save(Kernel("class Log:\n    def __init__(self): self.f = open('/etc/hostname')\nlog = Log()"))
        self.assertIn("log", self.lost())
        self.assertEqual(sys.modules["__main__"].__dict__["log"].f.closed, False)
