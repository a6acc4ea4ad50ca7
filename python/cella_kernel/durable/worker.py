"""A worker: a fork for work that may hang, crash, print or use up memory. It reports to its parent.

Reports are JSON lists, one per line. A worker prints nothing, and its memory is limited.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from time import monotonic  # by itself: code that freezes time for its tests does not freeze it here
from typing import Any, Callable, List, NamedTuple, Optional

from ..processes import end_group, silence
from ..sandbox import linux
from .unsaveable import describe_error

try:
    import resource
except ImportError:
    pass  # WebAssembly, which has no workers

Event = List[Any]
Report = Callable[[Event], None]


class WorkerEnd(NamedTuple):
    """How a worker ended without finishing, such as "took longer than 2.0 s"."""

    words: str
    is_late: bool


# A longer line is not a report.
_LONGEST_LINE = 64 << 20
# How often to check whether the worker has ended: its pipe may stay open in a child of its own.
_CHECK_S = 0.1
# Reports of one kind are collected for this time.
_REPORT_S = 0.02


class Limits(NamedTuple):
    """How long a worker may take, and how much memory. Its timeout starts again whenever `steps()` has changed."""

    steps: Callable[[], int]
    timeout_s: Callable[[], float]
    # No timeout ends after this time.
    until: float
    memory_bytes: int


def run(work: Callable[[Report], None], on_report: Report, limits: Limits) -> Optional[WorkerEnd]:
    """Returns None when the work is done, else how the worker ended."""
    reader, writer = os.pipe()
    try:
        try:
            pid = _fork()
            if not pid:
                _be_worker(work, reader, writer, limits.memory_bytes)
        finally:
            os.close(writer)
        return _Watch(pid, reader, on_report).follow(limits)
    finally:
        os.close(reader)


def _fork() -> int:
    """With one thread, without fork hooks, which may be user code. With several, Python must reset its locks."""
    return linux.fork() if linux.supported() and len(sys._current_frames()) == 1 else os.fork()


class _Watch:
    def __init__(self, pid: int, reader: int, on_report: Report) -> None:
        self._pid = pid
        self._reader = reader
        self._on_report = on_report
        self._rest = b""
        self._done = False

    def follow(self, limits: Limits) -> Optional[WorkerEnd]:
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        step, allowed, deadline = -1, 0.0, 0.0
        try:
            while not self._done:
                now = monotonic()
                if limits.steps() != step:
                    step, allowed = limits.steps(), min(limits.timeout_s(), limits.until - now)
                    deadline = now + allowed
                if now >= deadline:
                    return WorkerEnd("took longer than %.1f s" % max(allowed, 0), is_late=True)
                if poll.poll(1000 * min(deadline - now, _CHECK_S)):
                    if not self._handle_reports(os.read(self._reader, 1 << 20)):
                        break
                elif os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                    break
        finally:
            status = end_group(self._pid)
        return None if self._done else WorkerEnd(_describe_status(status), is_late=False)

    def _handle_reports(self, data: bytes) -> bool:
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _LONGEST_LINE:
            self._rest = b""
        for line in lines:
            try:
                event = json.loads(line) if line else [""]
                self._done = self._done or event == ["done"]
                self._on_report(event)
            except Exception:
                pass  # user code has written to this pipe
        return bool(data)


def _describe_status(status: int) -> str:
    if os.WIFSIGNALED(status):
        return "ended the process (%s)" % signal.Signals(os.WTERMSIG(status)).name
    return "ended the process (exit code %d)" % os.WEXITSTATUS(status)


def _be_worker(work: Callable[[Report], None], reader: int, writer: int, memory_bytes: int) -> None:
    """Never returns, and runs no exit handlers."""
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
    reported_at = monotonic()

    def report(event: Event) -> None:
        nonlocal kind, reported_at
        waiting.append(json.dumps(event).encode() + b"\n")
        # Collected, as each write wakes the parent. If this worker dies, the next one repeats what was not reported.
        if event[0] != kind or monotonic() - reported_at > _REPORT_S:
            # On a new line, in case user code has written to this pipe.
            data = memoryview(b"\n" + b"".join(waiting))
            waiting.clear()
            while data:
                data = data[os.write(writer, data) :]
            kind, reported_at = event[0], monotonic()

    return report


# Enough recursion, and stack, for a linked list of some thousand objects.
_DEEPEST = 10_000
_STACK_BYTES = 64 << 20


def _be_quiet() -> None:
    silence()
    for number in (signal.SIGINT, signal.SIGXFSZ, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)


def _limit_memory(memory_bytes: int) -> None:
    """Allows the memory that is in use now, as much again for loaded copies, and `memory_bytes`. Allows deep recursion.

    If memory still runs out, Linux kills this process before the kernel.
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
        return  # no /proc: only the limits of the sandbox apply
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
        pass  # not allowed: the present limit stays
