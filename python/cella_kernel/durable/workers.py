"""A worker: a fork that does what may hang, crash, print or take all memory, and tells its parent how far it is.

What it tells are JSON lists, one a line. One that begins with "at" says what it turns to next: that is what is to blame
when the worker dies, or takes too long.
"""

from __future__ import annotations

import json
import os
import select
import signal
import time
from typing import Any, Callable, List, NamedTuple, Optional

from ..sandbox import linux
from . import confinement
from .live import brief

Event = List[Any]
Report = Callable[[Event], None]


class Ending(NamedTuple):
    """What became of a worker that did not get to its end: "took longer than 2.0 s"."""

    words: str
    is_late: bool


_LONGEST_LINE = 64 << 20
# How often a worker is looked at whose pipe stays open, which a child of its own may hold.
_LOOK_S = 0.1


def run(
    work: Callable[[Report], None], heard: Report, *, until: float, patience: Callable[[], float], memory_bytes: int
) -> Optional[Ending]:
    """Returns None when the work is done, else what became of it.

    `patience` says how many seconds the worker has for what it turns to next. `until` is the end of all patience.
    """
    reader, writer = os.pipe()
    pid = linux.fork() if linux.supported() else os.fork()
    if not pid:
        _be_worker(work, reader, writer, memory_bytes)
    os.close(writer)
    try:
        return _Watch(pid, reader, heard, until, patience).follow()
    finally:
        os.close(reader)


class _Watch:
    def __init__(self, pid: int, reader: int, heard: Report, until: float, patience: Callable[[], float]) -> None:
        self._pid = pid
        self._reader = reader
        self._heard = heard
        self._until = until
        self._patience = patience
        self._rest = b""
        self._done = False
        self._step()

    def follow(self) -> Optional[Ending]:
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        try:
            while not self._done:
                left = self._deadline - time.monotonic()
                if left <= 0:
                    return Ending("took longer than %.1f s" % self._allowed, is_late=True)
                if poll.poll(1000 * min(left, _LOOK_S)):
                    if not self._take_in(os.read(self._reader, 1 << 20)):
                        break
                elif os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                    break
        except (ValueError, TypeError, KeyError, IndexError):
            pass  # the code has written to our pipe: this worker's word is worth nothing any more
        finally:
            status = self._end()
        return None if self._done else Ending(_became(status), is_late=False)

    def _step(self) -> None:
        now = time.monotonic()
        self._allowed = max(0.0, min(self._patience(), self._until - now))
        self._deadline = now + self._allowed

    def _take_in(self, data: bytes) -> bool:
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _LONGEST_LINE:
            raise ValueError("a line without end")
        for line in lines:
            event = json.loads(line)
            if event == ["done"]:
                self._done = True
                return True
            self._heard(event)
            if event[0] == "at":
                self._step()
        return bool(data)

    def _end(self) -> int:
        """Ends the worker and all that came from it. It is reaped last, so that its number stays its own till then."""
        for kill in (os.killpg, os.kill):
            try:
                kill(self._pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass  # it has no group yet, or has ended
        try:
            return os.waitpid(self._pid, 0)[1]
        except ChildProcessError:
            return 0


def _became(status: int) -> str:
    if os.WIFSIGNALED(status):
        return "ended the process (%s)" % signal.Signals(os.WTERMSIG(status)).name
    return "ended the process (exit code %d)" % os.WEXITSTATUS(status)


def _be_worker(work: Callable[[Report], None], reader: int, writer: int, memory_bytes: int) -> None:
    """Never returns, and runs nothing that is meant for the end of the kernel."""
    try:
        os.close(reader)
        os.setsid()
        if linux.supported():
            linux.die_with_parent()
        confinement.be_quiet()
        confinement.be_modest(memory_bytes)
        report = _reporter(writer)
        work(report)
        report(["done"])
    except BaseException as error:
        os.write(writer, json.dumps(["failed", brief(error)]).encode() + b"\n")
    finally:
        os._exit(0)


def _reporter(writer: int) -> Report:
    waiting: List[bytes] = []

    def report(event: Event) -> None:
        waiting.append(json.dumps(event).encode() + b"\n")
        # What was found out needs to be told before the next risk, and no earlier.
        if event[0] in ("at", "done"):
            data = memoryview(b"".join(waiting))
            waiting.clear()
            while data:
                data = data[os.write(writer, data) :]

    return report
