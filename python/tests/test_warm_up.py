"""A spare that wakes leaves the host's processor to the host, and is then a process like any other."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import struct
import unittest
from typing import Callable, Iterator, Set, Tuple
from unittest import mock

from cella_kernel.kernel.warm_up import SpareScheduling
from cella_kernel.sandbox import linux

_SCHED_GETATTR = {"x86_64": 315, "aarch64": 275}
_LISTENS_SINCE = (6, 12)


class Waking(unittest.TestCase):
    def test_it_leaves_the_processor_of_the_host_and_may_come_back(self) -> None:
        with _processors({0, 1, 2}) as moved:
            SpareScheduling().leave_processor(1)
        self.assertEqual(moved.call_args_list, [mock.call(0, {0, 2}), mock.call(0, {0, 1, 2})])

    def test_it_stays_where_there_is_no_other_processor_or_the_host_has_one_of_its_own(self) -> None:
        for allowed, host in (({0}, 0), ({0, 1}, 7), ({0, 1}, -1)):
            with self.subTest(allowed=allowed, host=host), _processors(allowed) as moved:
                SpareScheduling().leave_processor(host)
                moved.assert_not_called()

    def test_it_wakes_up_where_it_may_not_choose(self) -> None:
        with _processors({0, 1}) as moved:
            moved.side_effect = PermissionError(1, "Operation not permitted")
            SpareScheduling().leave_processor(0)
        self.assertEqual(moved.call_count, 1)

    def test_it_asks_to_run_at_once_only_until_it_ends(self) -> None:
        def life() -> Tuple[int, int, int]:
            before = _slice_ns()
            scheduling = SpareScheduling()
            waiting = _slice_ns()
            scheduling.end()
            return before, waiting, _slice_ns()

        before, waiting, after = _in_a_process_of_its_own(life)
        self.assertEqual(after, before)
        if tuple(int(part) for part in platform.release().split(".")[:2]) >= _LISTENS_SINCE:
            self.assertEqual(waiting, 100_000)

    def test_one_that_was_made_to_wait_for_others_goes_on_waiting(self) -> None:
        def nice() -> Tuple[int, int]:
            wanted = os.nice(7)
            SpareScheduling().end()
            return os.getpriority(os.PRIO_PROCESS, 0) - wanted, os.sched_getscheduler(0)

        self.assertEqual(_in_a_process_of_its_own(nice), (0, os.SCHED_OTHER))

        def batch() -> Tuple[int, int]:
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
            SpareScheduling().end()
            return 0, os.sched_getscheduler(0)

        self.assertEqual(_in_a_process_of_its_own(batch), (0, os.SCHED_BATCH))


@contextlib.contextmanager
def _processors(allowed: Set[int]) -> Iterator[mock.MagicMock]:
    with mock.patch("os.sched_getaffinity", return_value=allowed), mock.patch("os.sched_setaffinity") as moved:
        yield moved


def _slice_ns() -> int:
    attributes = ctypes.create_string_buffer(48)
    number = ctypes.c_long(_SCHED_GETATTR[linux.MACHINE])
    if linux.libc.syscall(number, 0, attributes, ctypes.c_uint(48), ctypes.c_uint(0)) != 0:
        raise OSError(ctypes.get_errno(), "sched_getattr")
    return int(struct.unpack("IIQiIQQQ", attributes.raw)[5])


def _in_a_process_of_its_own(measure: Callable[[], Tuple[int, ...]]) -> Tuple[int, ...]:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writer, repr(measure()).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader) as told:
        text = told.read()
    os.waitpid(pid, 0)
    return tuple(int(part) for part in text.strip("()").split(","))
