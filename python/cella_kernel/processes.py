"""Processes and their descriptors: forking, who descends from whom, ending descendants, closing all but a few descriptors."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from typing import Collection, Dict, List

from .sandbox import linux

_PIPE_BYTES = 1 << 20
# How often, and how long apart, processes without a namespace are killed: one that forks may be missed once.
_MOST_ROUNDS, _ROUND_S = 200, 0.005


def parents() -> Dict[int, int]:
    """Every process that /proc shows, with its parent."""
    found: Dict[int, int] = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return found  # no /proc on this system: kernels end with their connection
    for name in names:
        if name.isdigit():
            try:
                with open("/proc/%s/stat" % name, encoding="utf-8", errors="replace") as file:
                    found[int(name)] = int(file.read().rpartition(")")[2].split()[1])
            except OSError:
                continue  # it ended while we looked
    return found


def descendants(root: int, spare: Collection[int] = ()) -> List[int]:
    """What came from `root`, without the processes of `spare` and what came from those."""
    known = parents()
    found = {root}
    grew = True
    while grew:
        more = {pid for pid, parent in known.items() if parent in found and pid not in found and pid not in spare}
        grew = bool(more)
        found |= more
    return sorted(found - {root})


def is_held_still(pid: int) -> bool:
    """Whether it is stopped or traced."""
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] in "Tt"
    except OSError:
        return False  # it has ended


def send_signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass  # it ended by itself, and is reaped next; or, without a sandbox, became another user's


def end_descendants() -> None:
    """Without a pid namespace: kills what came from this process, which adopts orphans, until nothing is left."""
    for _ in range(_MOST_ROUNDS):
        pids = descendants(os.getpid())
        if not pids:
            return
        for pid in pids:
            send_signal(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass  # none is left to reap
        time.sleep(_ROUND_S)


def child_signal_pipe() -> int:
    """A descriptor that becomes readable when a child may have ended, or another signal has come."""
    reader, writer = os.pipe()
    for fd in (reader, writer):
        os.set_blocking(fd, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    return reader


def fork() -> int:
    """Of a process with one thread. Without Python's hooks for forks, where the system allows that."""
    return linux.fork() if linux.supported() else os.fork()


def close_others(keep: Collection[int]) -> None:
    """Closes every descriptor but the standard ones and `keep`, however high its number."""
    first = 3
    for fd in sorted(set(keep)):
        os.closerange(first, fd)
        first = fd + 1
    linux.close_from(first)


def silence() -> None:
    """Standard input, output and error of this process are nothing."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nothing, fd)
    os.close(nothing)


def widen(pipe: int) -> None:
    """A kernel that prints much need not stop for the host at every 64 KiB."""
    try:
        fcntl.fcntl(pipe, getattr(fcntl, "F_SETPIPE_SZ", 1031), _PIPE_BYTES)
    except OSError:
        pass  # an ordinary user has room for a few wide pipes only; the others stay as they are
