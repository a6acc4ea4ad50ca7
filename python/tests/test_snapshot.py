"""Whether a kernel may be forked: threads that are on their way out are waited for, others are told."""

import os
import threading
import unittest
from typing import Any, Callable, List
from unittest import mock

from cella_kernel.kernel import snapshot


def _counting(*threads: int) -> Callable[[Any], List[str]]:
    """As if there were so many threads, look after look; the last number stays."""
    left, real = list(threads), os.listdir

    def listdir(path: Any) -> List[str]:
        if path != "/proc/self/task":
            return real(path)
        count = left.pop(0) if len(left) > 1 else left[0]
        return [str(os.getpid())] + ["%d" % (10**8 + n) for n in range(count - 1)]

    return listdir


class Threads(unittest.TestCase):
    def test_one_that_ends_late_on_a_busy_machine_is_waited_for(self) -> None:
        # Each look comes as late as on a machine that gives this process a moment every quarter of a second.
        clock = iter(n * 0.25 for n in range(100))
        with mock.patch.object(snapshot.time, "monotonic", lambda: next(clock)):
            with mock.patch.object(snapshot.os, "listdir", _counting(2, 2, 2, 1)):
                snapshot._check_threads()

    def test_one_that_waits_for_something_is_told_soon(self) -> None:
        done = threading.Event()
        thread = threading.Thread(target=done.wait, name="waits")
        thread.start()
        try:
            with self.assertRaisesRegex(snapshot.ForkUnsafe, "waits"):
                snapshot._check_threads()
        finally:
            done.set()
            thread.join()
        snapshot._check_threads()

    def test_one_that_never_ends_is_told_in_the_end(self) -> None:
        clock = iter(n * 0.25 for n in range(100))
        with mock.patch.object(snapshot.time, "monotonic", lambda: next(clock)):
            with mock.patch.object(snapshot.os, "listdir", _counting(2)):
                with self.assertRaisesRegex(snapshot.ForkUnsafe, "native library"):
                    snapshot._check_threads()


if __name__ == "__main__":
    unittest.main()
