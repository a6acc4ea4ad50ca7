"""A snapshot: a frozen fork of a kernel. It can become a kernel, or fork one and stay.

It is a child of pid 1, not of the kernel: code that waits for its children never sees it.
"""

from __future__ import annotations

import _thread
import os
import signal
import socket
import sys
import time
from typing import List, Optional, Sequence

from .. import fd_passing
from ..processes import silence
from ..protocol import EXIT_SNAPSHOT_FAILED
from ..sandbox import linux

# How long, and how often, a thread is looked at before it counts as one that stays; how long it may lack a processor.
_SETTLE_S, _SETTLE_LOOKS, _SETTLE_AGAIN_S = 0.1, 100, 0.0002
_LONGEST_SETTLE_S = 2.0


class ForkUnsafe(Exception):
    """This process cannot be forked: threads would be missing in the fork, and what they have locked stay locked."""


class RestoredSnapshot:
    """What a snapshot was handed when it became a kernel: its descriptors, and the number of its interrupt slot."""

    __slots__ = ("descriptors", "slot")

    def __init__(self, descriptors: List[int], slot: int) -> None:
        self.descriptors = descriptors
        self.slot = slot


def take(number: int, registration: int, own: Sequence[int]) -> Optional[RestoredSnapshot]:
    """Forks a snapshot. Returns None in the kernel, at once, and a value in the snapshot when it becomes a kernel.

    `own` are the descriptors that belong to the kernel alone; the snapshot closes them.
    """
    _check_threads()
    ours, theirs = socket.socketpair()
    ready, told = socket.socketpair()
    pid = linux.fork_beside()
    if pid:
        theirs.close()
        ours.close()
        told.close()
        with ready:
            if ready.recv(1) != b"+":
                raise ForkUnsafe("the fork could not be kept: too many points are held already")
        return None
    try:
        ready.close()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for fd in own:
            os.close(fd)
        silence()
        # Pid 1 tells the kernel once it can be asked for this snapshot, or closes its end.
        fd_passing.register(registration, {"snapshot": number}, [ours.fileno(), told.fileno()])
        ours.close()
        told.close()
        return _wait_for_restore(theirs, registration)
    except BaseException:
        # It must not go on as the kernel that it was forked from.
        os._exit(EXIT_SNAPSHOT_FAILED)


def _wait_for_restore(way: socket.socket, registration: int) -> RestoredSnapshot:
    """Frozen, until pid 1 hands over a connection. Its end is ours."""
    while True:
        try:
            _, body, descriptors = fd_passing.receive(way)
        except (EOFError, OSError):
            os._exit(0)
        if body["keep"]:
            pid = linux.fork_beside()
            if pid:
                for fd in descriptors:
                    os.close(fd)
                continue
        way.close()
        os.setsid()
        fd_passing.register(registration, {"kernel": body["kernel"]}, [])
        return RestoredSnapshot(descriptors, body["slot"])


def _check_threads() -> None:
    """One thread in all, by the system's own count: it knows those of native libraries too."""
    if not linux.supported():
        raise ForkUnsafe("forks of a kernel need Linux")
    began, looks = time.monotonic(), 0
    # One that has just ended may still be counted: on a busy machine it waits for a processor to be gone.
    while len(os.listdir("/proc/self/task")) > 1:
        waited, looks = time.monotonic() - began, looks + 1
        settled = waited > _SETTLE_S and looks > _SETTLE_LOOKS and _another_stays()
        if settled or waited > _LONGEST_SETTLE_S:
            raise ForkUnsafe(_threads_by_name())
        time.sleep(_SETTLE_AGAIN_S)


def _another_stays() -> bool:
    """Whether a thread is there that Python knows, or that waits for something: one on its way out does neither."""
    if _threads_of_python():
        return True
    own = _thread.get_native_id()
    for name in os.listdir("/proc/self/task"):
        try:
            with open("/proc/self/task/%s/stat" % name, encoding="utf-8", errors="replace") as file:
                state = file.read().rpartition(")")[2].split()[0]
        except OSError:
            continue  # it has ended
        if int(name) != own and state not in "RXZ":
            return True
    return False


def _threads_of_python() -> List[str]:
    threading = sys.modules.get("threading")
    if threading is None:
        return []
    return [thread.name for thread in threading.enumerate() if thread is not threading.main_thread()]


def _threads_by_name() -> str:
    names = _threads_of_python()
    if names:
        return "these threads are running: %s" % ", ".join(names[:20])
    native = len(os.listdir("/proc/self/task")) - 1
    threads = "a thread" if native == 1 else "%d threads" % native
    return "%s of a native library (such as OpenMP) %s running" % (threads, "is" if native == 1 else "are")
