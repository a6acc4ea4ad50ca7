"""Processes and their descriptors: forking, who descends from whom, ending descendants, closing all but a few descriptors."""

from __future__ import annotations

import fcntl
import os
import signal
import time
from typing import Collection, Dict, List

from .sandbox import linux

_PIPE_BYTES = 1 << 20
# How often `end_descendants` repeats, and after how long: a process that forks can escape one round.
_MOST_ROUNDS, _ROUND_S = 200, 0.005


def parents() -> Dict[int, int]:
    """The parent of each process in /proc, by pid."""
    found: Dict[int, int] = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return found  # a system without /proc: kernels end when their connection does
    for name in names:
        if name.isdigit():
            try:
                found[int(name)] = int(stat_fields("/proc/" + name)[1])
            except OSError:
                continue  # it has ended meanwhile
    return found


def descendants(root: int, excluded: Collection[int] = ()) -> List[int]:
    """The descendants of `root`, without the processes of `excluded` and their descendants."""
    known = parents()
    found = {root}
    grew = True
    while grew:
        more = {pid for pid, parent in known.items() if parent in found and pid not in found and pid not in excluded}
        grew = bool(more)
        found |= more
    return sorted(found - {root})


def is_stopped(pid: int) -> bool:
    """Whether the process is stopped or traced."""
    try:
        return stat_fields("/proc/%d" % pid)[0] in "Tt"
    except OSError:
        return False  # it has ended


def stat_fields(folder: str) -> List[str]:
    """From the `stat` file of a process or thread: the state, the parent and what follows the name."""
    with open(folder + "/stat", encoding="utf-8", errors="replace") as file:
        return file.read().rpartition(")")[2].split()


def send_signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass  # it has ended and is about to be reaped; or, without a sandbox, it now belongs to another user


def end_group(pid: int) -> int:
    """Kills a child and its process group. Returns its wait status, or 0 if a handler of the code has reaped it.

    The child is reaped last, so that its pid cannot be reused before.
    """
    for kill in (os.killpg, os.kill):
        try:
            kill(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            pass  # it has not made its group yet, or has ended
    try:
        return os.waitpid(pid, 0)[1]
    except ChildProcessError:
        return 0


def end_descendants() -> None:
    """Kills all descendants of this process, which adopts orphans, and repeats that until none is left."""
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
    """A descriptor that becomes readable when a child may have ended or another signal has arrived."""
    reader, writer = os.pipe()
    for fd in (reader, writer):
        os.set_blocking(fd, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    return reader


def fork() -> int:
    """Forks a process with one thread; on Linux, without Python's fork hooks."""
    return linux.fork() if linux.supported() else os.fork()


def close_others(keep: Collection[int]) -> None:
    """Closes every descriptor but the standard ones and `keep`, however high its number."""
    first = 3
    for fd in sorted(set(keep)):
        os.closerange(first, fd)
        first = fd + 1
    linux.close_from(first)


def silence() -> None:
    """Points standard input, output and error at /dev/null."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nothing, fd)
    os.close(nothing)


def widen(pipe: int) -> None:
    """Enlarges a pipe, so that a kernel that prints much does not wait for the host every 64 KiB."""
    try:
        fcntl.fcntl(pipe, getattr(fcntl, "F_SETPIPE_SZ", 1031), _PIPE_BYTES)
    except OSError:
        pass  # an ordinary user may have only a few large pipes
