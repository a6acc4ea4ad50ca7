"""What lives in one process alone is told, and never half restored."""

from __future__ import annotations

import sys
import unittest

from .test_durable import Case, Kernel, has, needs_cloudpickle


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
            (
                "from concurrent.futures import ThreadPoolExecutor; x = ThreadPoolExecutor(1)",
                "an executor cannot be saved",
            ),
            ("from concurrent.futures import Future; x = Future()", "a future cannot be saved"),
            ("import asyncio; x = asyncio.new_event_loop()", "an event loop cannot be saved"),
            (
                "import asyncio; loop = asyncio.new_event_loop(); x = loop.create_future()",
                "an asyncio future cannot be saved",
            ),
            ("x = memoryview(bytearray(3))", "a memoryview cannot be saved"),
            ("import mmap; x = mmap.mmap(-1, 10)", "a memory-mapped file cannot be saved"),
            ("import tempfile; x = tempfile.TemporaryDirectory()", "a temporary folder cannot be saved"),
            ("import weakref\nclass C: pass\nx = weakref.ref(C())", "a weak reference cannot be saved"),
            ("import weakref\nclass C: pass\nc = C(); x = weakref.proxy(c)", "a weak reference cannot be saved"),
            ("import ctypes; x = ctypes.CDLL(None)", "a loaded library cannot be saved"),
            ("import selectors; x = selectors.SelectSelector()", "a selector cannot be saved"),
            ("import contextvars; x = contextvars.ContextVar('x')", "a context variable cannot be saved"),
            (
                "import multiprocessing; x = multiprocessing.Value('i', 1)",
                "an object of multiprocessing.sharedctypes cannot be saved",
            ),
            ("import sys; x = sys._getframe()", "a frame cannot be saved"),
        ):
            with self.subTest(code):
                self.assertEqual(self.told(code), words)

    @unittest.skipUnless(has("sqlite3") and has("_sqlite3"), "needs sqlite3")
    def test_database_connections_are_told(self) -> None:
        self.assertEqual(
            self.told("import sqlite3; x = sqlite3.connect(':memory:')"), "a database connection cannot be saved"
        )

    def test_what_pickle_refuses_is_told_in_its_words(self) -> None:
        self.save(
            Kernel(
                "import select\nx = select.poll()\nclass C:\n"
                "    def __reduce__(self): raise ValueError('not me\\nsecond line')\nc = C()\nok = 1"
            )
        )
        self.assertRegex(self.lost()["x"], "cannot pickle .*poll")
        self.assertEqual((self.lost()["c"], self.report["saved"]), ("ValueError: not me", ["select", "C", "ok"]))

    def test_a_thread_that_runs_does_not_matter_to_the_others(self) -> None:
        kernel = Kernel(
            "import threading\nstop = threading.Event()\nt = threading.Thread(target=stop.wait)\nt.start()\nx = 1"
        )
        self.addCleanup(kernel.run, "stop.set(); t.join()")
        self.save(kernel)
        self.assertIn("x", self.report["saved"])
        self.assertEqual(self.lost()["t"], "a thread cannot be saved")

    @needs_cloudpickle
    def test_a_closure_over_something_live_is_told(self) -> None:
        self.save(Kernel("def make():\n    f = open('/dev/null')\n    return lambda: f\ng = make()"))
        self.assertEqual(self.lost()["g"], "it contains an open file ('/dev/null'), which cannot be saved")

    def test_a_read_file_never_becomes_text(self) -> None:
        self.save(Kernel("class Log:\n    def __init__(self): self.f = open('/etc/hostname')\nlog = Log()"))
        self.assertIn("log", self.lost())
        self.assertEqual(sys.modules["__main__"].__dict__["log"].f.closed, False)
