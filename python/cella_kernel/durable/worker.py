"""A worker: a fork that does what may hang, crash, print or use up memory, and reports to its parent.

Reports are JSON lists, one a line. A worker prints nothing, and its memory is limited.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from time import monotonic  # by itself: code that freezes time for its tests does not freeze it here
from typing import Any, Callable, List, NamedTuple, Optional

from ..processes import silence
from ..sandbox import linux
from .unsaveable import describe_error

try:
    import resource
except ImportError:
    pass  # in WebAssembly, which has no workers to confine either

Event = List[Any]
Report = Callable[[Event], None]


class WorkerEnd(NamedTuple):
    """How a worker ended that did not finish: "took longer than 2.0 s"."""

    words: str
    is_late: bool


# A longer line is not one of ours.
_LONGEST_LINE = 64 << 20
# How often to check a worker whose pipe stays open: a child of its own may hold it.
_LOOK_S = 0.1
_TELL_S = 0.02


def run(
    work: Callable[[Report], None],
    on_report: Report,
    *,
    steps: Callable[[], int],
    until: float,
    timeout: Callable[[], float],
    memory_bytes: int,
) -> Optional[WorkerEnd]:
    """Returns None when the work is done, else how the worker ended.

    Whenever `steps` has grown, the worker has `timeout` seconds again. No timeout goes past `until`.
    """
    reader, writer = os.pipe()
    try:
        try:
            pid = _fork()
            if not pid:
                _be_worker(work, reader, writer, memory_bytes)
        finally:
            os.close(writer)
        return _Watch(pid, reader, on_report).follow(steps, until, timeout)
    finally:
        os.close(reader)


def _fork() -> int:
    """Without fork hooks, which may be user code's, if there is one thread; else Python must reset its locks."""
    return linux.fork() if linux.supported() and len(sys._current_frames()) == 1 else os.fork()


class _Watch:
    def __init__(self, pid: int, reader: int, on_report: Report) -> None:
        self._pid = pid
        self._reader = reader
        self._on_report = on_report
        self._rest = b""
        self._done = False

    def follow(self, steps: Callable[[], int], until: float, timeout: Callable[[], float]) -> Optional[WorkerEnd]:
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        step, allowed, deadline = -1, 0.0, 0.0
        try:
            while not self._done:
                now = monotonic()
                if steps() != step:
                    step, allowed = steps(), min(timeout(), until - now)
                    deadline = now + allowed
                if now >= deadline:
                    return WorkerEnd("took longer than %.1f s" % max(allowed, 0), is_late=True)
                if poll.poll(1000 * min(deadline - now, _LOOK_S)):
                    if not self._take_in(os.read(self._reader, 1 << 20)):
                        break
                elif os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                    break
        finally:
            status = self._end()
        return None if self._done else WorkerEnd(_became(status), is_late=False)

    def _take_in(self, data: bytes) -> bool:
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _LONGEST_LINE:
            self._rest = b""
        for line in lines:
            try:
                event = json.loads(line) if line else [""]
                self._done = self._done or event == ["done"]
                self._on_report(event)
            except Exception:
                pass  # user code has written to our pipe
        return bool(data)

    def _end(self) -> int:
        """Kills the worker and all that came from it. It is reaped last, so that its pid is not reused before."""
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
        _be_quiet()
        _limit_memory(memory_bytes)
        report = _reporter(writer)
        work(report)
        report(["done"])
    except BaseException as error:
        os.write(writer, json.dumps(["failed", describe_error(error)]).encode() + b"\n")
    finally:
        os._exit(0)


def _reporter(writer: int) -> Report:
    waiting: List[bytes] = []
    kind = ""
    told = monotonic()

    def report(event: Event) -> None:
        nonlocal kind, told
        waiting.append(json.dumps(event).encode() + b"\n")
        # Seldom, as each write wakes the parent: what a dead worker has not reported is found out again.
        if event[0] != kind or monotonic() - told > _TELL_S:
            # On a line of its own, in case user code has written to this pipe.
            data = memoryview(b"\n" + b"".join(waiting))
            waiting.clear()
            while data:
                data = data[os.write(writer, data) :]
            kind, told = event[0], monotonic()

    return report


# Enough for a linked list of some thousand objects, and a stack that holds it.
_DEEPEST = 10_000
_STACK_BYTES = 64 << 20


def _be_quiet() -> None:
    silence()
    for number in (signal.SIGINT, signal.SIGXFSZ, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)


def _limit_memory(memory_bytes: int) -> None:
    """No more memory than is in use now, as much again for what is loaded, and `memory_bytes`; a deep stack.

    If memory runs out all the same, this process is killed before the kernel.
    """
    sys.setrecursionlimit(max(_DEEPEST, sys.getrecursionlimit()))
    _set_limit(resource.RLIMIT_STACK, _STACK_BYTES, at_least=True)
    try:
        with open("/proc/self/oom_score_adj", "w") as score:
            score.write("1000")
    except OSError:
        pass  # no /proc, or this process may not write there
    try:
        with open("/proc/self/statm", "rb") as file:
            mapped, resident = (int(pages) * resource.getpagesize() for pages in file.read().split()[:2])
    except (OSError, ValueError):
        return  # no /proc: the limits of the sandbox hold alone
    _set_limit(resource.RLIMIT_AS, mapped + resident + memory_bytes, at_least=False)


def _set_limit(kind: int, value: int, at_least: bool) -> None:
    soft, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    if soft == resource.RLIM_INFINITY:
        wanted = soft if at_least else value
    else:
        wanted = max(soft, value) if at_least else min(soft, value)
    try:
        resource.setrlimit(kind, (wanted, hard))
    except (OSError, ValueError):
        pass  # refused: what is in force stays
