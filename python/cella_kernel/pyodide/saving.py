"""Saves a durable checkpoint without a fork: in the kernel itself, which is unchanged afterwards.

Code that a variable runs while it is saved runs in this process. Its output is dropped, its changes are undone, it cannot
end the process, and it has as much time as in a worker. Code that crashes the interpreter ends the kernel.
"""

from __future__ import annotations

import functools
import gc
import os
import signal
import sys
import warnings
from contextlib import contextmanager
from time import monotonic
from typing import Any, Callable, Dict, Iterator, Mapping, Optional

from .. import protocol
from ..durable import save as durable_save
from ..durable.trial import TrialLoader
from ..durable.worker import Limits, Report, WorkerEnd
from ..kernel import checkpoint_io
from .undo_log import UndoLog

# How often the time of a variable is checked, and the least time that it gets.
_CHECK_S, _LEAST_S = 0.05, 0.1
_ENDINGS = ("_exit", "abort")
# Requests a SIGALRM after this many seconds; 0 cancels it.
Alarm = Callable[[float], None]


class _TimedOut(BaseException):
    """Its text says how long saving a variable took."""


class _SilentLoader(TrialLoader):
    """Removes `__del__` from loaded classes: run for a copy that is freed, it would close what the original uses."""

    def _load(self, group: Any) -> Dict[str, Any]:
        values = super()._load(group)
        for value in values.values():
            if isinstance(value, type) and "__del__" in type.__dict__["__dict__"].__get__(value):
                type.__delattr__(value, "__del__")
        return values


def save(
    send: checkpoint_io.Send, alarm: Alarm, namespace: Dict[str, Any], cells: Mapping[str, str], limit_bytes: int, seconds: float
) -> None:
    """Sends the parts, then SAVED."""
    try:
        log = UndoLog(namespace)
        try:
            with _without_effects():
                run = functools.partial(_run, alarm)
                method = durable_save.SaveMethod(run, _SilentLoader)
                report = durable_save.save(
                    namespace, cells, checkpoint_io.emitter(send), limit_bytes=limit_bytes, seconds=seconds, method=method
                )
        finally:
            log.restore()
        answer = checkpoint_io.answer(report)
    except BaseException as error:
        answer = checkpoint_io.answer(checkpoint_io.NOTHING, failed="%s: %s" % (type(error).__name__, error))
    send(protocol.SAVED, answer)


def _run(alarm: Alarm, work: Callable[[Report], None], _on_report: Report, limits: Limits) -> Optional[WorkerEnd]:
    """Does the work of a worker in this process. The work applies its events to the plan itself: no report is needed."""
    step, allowed, deadline = -1, 0.0, 0.0

    def check(*_: Any) -> None:
        nonlocal step, allowed, deadline
        hangs = limits.steps() == step and monotonic() >= deadline
        waited = allowed
        if hangs or limits.steps() != step:
            step, allowed = limits.steps(), max(min(limits.timeout_s(), limits.until - monotonic()), _LEAST_S)
            deadline = monotonic() + allowed
        alarm(_CHECK_S)
        if hangs:
            raise _TimedOut("saving it took longer than %.1f s" % waited)

    before = signal.signal(signal.SIGALRM, check)
    check()
    try:
        work(lambda _event: None)
    except _TimedOut as error:
        return WorkerEnd(str(error), is_late=True)
    finally:
        alarm(0)
        signal.signal(signal.SIGALRM, before)
    return None


@contextmanager
def _without_effects() -> Iterator[None]:
    """Drops what the variables' code prints, and keeps it from ending this process."""
    streams = os.dup(1), os.dup(2)
    nothing = os.open(os.devnull, os.O_RDWR)
    endings = {name: getattr(os, name) for name in _ENDINGS}
    hook = sys.unraisablehook
    try:
        for fd in (1, 2):
            os.dup2(nothing, fd)
        for name in _ENDINGS:
            setattr(os, name, _refuse_to_end)
        with warnings.catch_warnings():
            yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (OSError, ValueError, AttributeError):
                pass  # a stream that the code has closed or replaced
        for name, ending in endings.items():
            setattr(os, name, ending)
        for fd, stream in zip((1, 2), streams):
            os.dup2(stream, fd)
            os.close(stream)
        os.close(nothing)
        sys.unraisablehook = hook
        gc.enable()


def _refuse_to_end(*_: Any) -> None:
    raise RuntimeError("ended the process")
