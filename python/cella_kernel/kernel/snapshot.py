"""A snapshot: a frozen fork of a kernel. It can become a kernel, or fork one and stay a snapshot.

It is a child of pid 1 and not of the kernel, so code that waits for its children does not see it.
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
from ..processes import silence, stat_fields
from ..protocol import EXIT_SNAPSHOT_FAILED
from ..sandbox import linux

# How long and how often a thread is checked before it counts as one that stays, and the limit on a busy machine.
_SETTLE_S, _SETTLE_LOOKS, _SETTLE_AGAIN_S = 0.1, 100, 0.0002
_LONGEST_SETTLE_S = 2.0


class ForkUnsafe(Exception):
    """This process cannot be forked: the fork would lack its other threads, and what they have locked would stay locked."""


class RestoredSnapshot:
    """What a snapshot gets when it becomes a kernel: its descriptors, and the number of its interrupt slot."""

    __slots__ = ("descriptors", "slot")

    def __init__(self, descriptors: List[int], slot: int) -> None:
        self.descriptors = descriptors
        self.slot = slot


def take(number: int, registration: int, own: Sequence[int]) -> Optional[RestoredSnapshot]:
    """Forks a snapshot. Returns None in the kernel, at once, and a value in the snapshot when it becomes a kernel.

    The snapshot closes the descriptors `own`, which belong to the kernel alone.
    """
    _check_threads()
    ours, theirs = socket.socketpair()
    ready, confirmation = socket.socketpair()
    pid = linux.fork_sibling()
    if pid:
        theirs.close()
        ours.close()
        confirmation.close()
        with ready:
            if ready.recv(1) != b"+":
                raise ForkUnsafe("the fork could not be kept: there are too many snapshots already")
        return None
    try:
        ready.close()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for fd in own:
            os.close(fd)
        silence()
        # Pid 1 confirms to the kernel that it has the snapshot, or closes its end.
        fd_passing.register(registration, {"snapshot": number}, [ours.fileno(), confirmation.fileno()])
        ours.close()
        confirmation.close()
        return _wait_for_restore(theirs, registration)
    except BaseException:
        # The fork must not continue as the kernel.
        os._exit(EXIT_SNAPSHOT_FAILED)


def _wait_for_restore(pid_one: socket.socket, registration: int) -> RestoredSnapshot:
    """Waits until pid 1 passes a connection. Exits if pid 1 closes the socket."""
    while True:
        try:
            _, body, descriptors = fd_passing.receive(pid_one)
        except (EOFError, OSError):
            os._exit(0)
        if body["keep"]:
            pid = linux.fork_sibling()
            if pid:
                for fd in descriptors:
                    os.close(fd)
                continue
        pid_one.close()
        os.setsid()
        fd_passing.register(registration, {"kernel": body["kernel"]}, [])
        return RestoredSnapshot(descriptors, body["slot"])


def _check_threads() -> None:
    """Raises ForkUnsafe unless this process has one thread. The system's count includes threads of native libraries."""
    if not linux.supported():
        raise ForkUnsafe("forks of a kernel need Linux")
    began, looks = time.monotonic(), 0
    # The count may include a thread that has just ended: on a busy machine, it needs a processor to disappear.
    while len(os.listdir("/proc/self/task")) > 1:
        waited, looks = time.monotonic() - began, looks + 1
        settled = waited > _SETTLE_S and looks > _SETTLE_LOOKS and _another_stays()
        if settled or waited > _LONGEST_SETTLE_S:
            raise ForkUnsafe(_threads_by_name())
        time.sleep(_SETTLE_AGAIN_S)


def _another_stays() -> bool:
    """Whether there is a thread that Python knows, or that waits for something. A thread that is ending does neither."""
    if _threads_of_python():
        return True
    own = _thread.get_native_id()
    for name in os.listdir("/proc/self/task"):
        try:
            state = stat_fields("/proc/self/task/" + name)[0]
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
