"""How a kernel is made ready ahead of its first cell: cells that run without a host, and the scheduling of a spare.

In the template, the interpreter adapts to its first calls, and all kernels share the result. In a spare, the memory that
the first cell writes to becomes private while no session waits for it.
"""

from __future__ import annotations

import json
import os
import socket
from contextlib import contextmanager
from typing import Callable, Iterator, Tuple

from .. import frames
from ..protocol import KERNEL_FDS, MARKER_BYTES, START
from ..sandbox import linux

ROUNDS, SPARE_ROUNDS = 20, 3
# The variable that these cells set.
VARIABLE = "warm"
CELLS = (bytes(MARKER_BYTES) + b"warm = 1\n", bytes(MARKER_BYTES) + b"warm\n")
# What most first cells have: a name, a call, an operation and a value.
FIRST_CELL = bytes(MARKER_BYTES) + b"warm = [0]\nlen(warm) + 1\n"
_SHORT_NS = 100_000


@contextmanager
def standalone_host() -> Iterator[Tuple[Callable[[], None], Callable[[], bytes]]]:
    """Opens the kernel's descriptors. Gives a function that sends START, and one that discards the kernel's answers."""
    host, ours = socket.socketpair()
    pipes = [os.pipe(), os.pipe()]
    ends = (ours.fileno(), pipes[0][1], pipes[1][1], pipes[0][0], pipes[1][0], ours.fileno())
    for fd, number in zip(ends, KERNEL_FDS):
        os.dup2(fd, number, inheritable=False)
    sample = json.dumps({"env": {}, "reseed": False, "sample": [1, "text"]}).encode()
    start = frames.HEADER.pack(len(sample), START, 0) + sample
    try:
        yield lambda: host.sendall(start), lambda: host.recv(65536)
    finally:
        host.close()
        ours.close()
        for fd in (*KERNEL_FDS, *pipes[0], *pipes[1]):
            os.close(fd)


class SpareScheduling:
    """A spare must be running by the time that the host has decided what to send.

    The host keeps computing after it has woken a spare, but the scheduler may expect it to sleep soon and put the spare on
    the same processor. One then waits for the other while another processor is idle. So a spare asks to run as soon as it
    is woken, and then moves to another processor. This only saves time: if it is refused, the spare runs a little later.
    """

    def __init__(self) -> None:
        self._allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
        linux.request_time_slice(_SHORT_NS)

    def leave_processor(self, processor: int) -> None:
        """Moves off the processor that the host runs on. Afterwards this process may run on any processor again."""
        others = self._allowed - {processor}
        if not others or others == self._allowed:
            return
        try:
            os.sched_setaffinity(0, others)
            os.sched_setaffinity(0, self._allowed)
        except OSError:
            pass  # it stays where it is

    def end(self) -> None:
        """Schedules this process like any other from now on."""
        linux.request_time_slice(0)
