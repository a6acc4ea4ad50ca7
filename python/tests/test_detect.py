"""Trials of layers: only a child that says so itself has succeeded, and none is left behind.

Run from the root of the repository, with any Python from 3.9:
    python3 -I -B -m unittest discover -s python/tests -t python
"""

from __future__ import annotations

import os
import signal
import time
import unittest

from cella_kernel.sandbox import detect
from cella_kernel.sandbox.linux import LayerError


def _raise(error: BaseException) -> str:
    raise error


def _die(number: int) -> str:
    os.kill(os.getpid(), number)
    time.sleep(60)
    return "outlived a signal"


class Attempt(unittest.TestCase):
    def tearDown(self) -> None:
        with self.assertRaises(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)

    def test_a_trial_that_returns_has_succeeded(self) -> None:
        self.assertEqual(detect.attempt(lambda: "fine"), (True, "fine"))

    def test_a_refusal_is_told_in_its_own_words(self) -> None:
        self.assertEqual(detect.attempt(lambda: _raise(LayerError("uid", "refused"))), (False, "refused"))
        self.assertEqual(detect.attempt(lambda: _raise(ValueError("odd"))), (False, "ValueError: odd"))
        self.assertEqual(detect.attempt(lambda: _raise(SystemExit(0)))[0], False)

    def test_a_crash_is_a_failure(self) -> None:
        available, detail = detect.attempt(lambda: _die(signal.SIGSEGV))
        self.assertFalse(available)
        self.assertIn("signal %d" % signal.SIGSEGV, detail)
        self.assertEqual(detect.attempt(lambda: os._exit(0))[0], False)

    def test_a_hanging_trial_is_ended_with_what_it_started(self) -> None:
        reader, writer = os.pipe()

        def hang() -> str:
            os.close(reader)
            os.fork()
            time.sleep(60)
            return "too late"

        start = time.monotonic()
        available, detail = detect.attempt(hang, 0.3)
        self.assertFalse(available)
        self.assertIn("did not end", detail)
        os.close(writer)
        # Ends only when no process holds the writing end.
        self.assertEqual(os.read(reader, 1), b"")
        os.close(reader)
        self.assertLess(time.monotonic() - start, 10)
