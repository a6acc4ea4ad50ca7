"""A durable checkpoint without a fork: the kernel itself takes its variables apart, and is unchanged afterwards.

Code that a variable runs while it is saved runs in this process. What it prints is dropped, what it changes is restored,
it cannot end the process, and it has as much time as in a worker. Code that breaks the interpreter ends the kernel.
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
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional

from .. import protocol
from ..durable import save as durable_save
from ..durable.trial import TrialLoader
from ..durable.worker import Report, WorkerEnd
from ..kernel import checkpoint_io
from .undo_log import UndoLog

# How often the time of a variable is checked, and the least time that it gets.
_LOOK_S, _LEAST_S = 0.05, 0.1
_ENDINGS = ("_exit", "abort")
# Asks for a SIGALRM after that many seconds; 0 for none.
Alarm = Callable[[float], None]


class _Late(BaseException):
    """Its text says how long was too long."""


class _SilentLoader(TrialLoader):
    """Copies that are freed must not run user code's `__del__`: it would close what belongs to the originals."""

    def _load(self, group: Any) -> Dict[str, Any]:
        values = super()._load(group)
        for value in values.values():
            if isinstance(value, type) and "__del__" in type.__dict__["__dict__"].__get__(value):
                type.__delattr__(value, "__del__")
        return values


def save(
    send: checkpoint_io.Send, alarm: Alarm, namespace: Dict[str, Any], cells: Mapping[str, str], limit_bytes: int, seconds: float
) -> None:
    """Sends the parts, and SAVED at the end."""
    try:
        log = UndoLog(namespace)
        try:
            with _aside():
                run = functools.partial(_run, alarm)
                method = durable_save.SaveMethod(run, _SilentLoader)
                told = durable_save.save(
                    namespace, cells, checkpoint_io.emitter(send), limit_bytes=limit_bytes, seconds=seconds, method=method
                )
        finally:
            log.restore()
        answer = checkpoint_io.answer(told)
    except BaseException as error:
        answer = checkpoint_io.answer(checkpoint_io.NOTHING, failed="%s: %s" % (type(error).__name__, error))
    send(protocol.SAVED, answer)


def _run(
    alarm: Alarm,
    work: Callable[[Report], None],
    on_report: Report,
    *,
    steps: Callable[[], int],
    until: float,
    timeout: Callable[[], float],
    memory_bytes: int,
) -> Optional[WorkerEnd]:
    """Instead of a worker: what it finds out is known here as it goes."""
    step, allowed, deadline = -1, 0.0, 0.0

    def look(*_: Any) -> None:
        nonlocal step, allowed, deadline
        hangs = steps() == step and monotonic() >= deadline
        waited = allowed
        if hangs or steps() != step:
            step, allowed = steps(), max(min(timeout(), until - monotonic()), _LEAST_S)
            deadline = monotonic() + allowed
        alarm(_LOOK_S)
        if hangs:
            raise _Late("saving it took longer than %.1f s" % waited)

    before = signal.signal(signal.SIGALRM, look)
    look()
    try:
        work(_nobody)
    except _Late as error:
        return WorkerEnd(str(error), is_late=True)
    finally:
        alarm(0)
        signal.signal(signal.SIGALRM, before)
    return None


def _nobody(_event: List[Any]) -> None:
    pass


@contextmanager
def _aside() -> Iterator[None]:
    """What the names print, and how they would end this process, has no effect meanwhile."""
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
                pass  # the code's own stream, or a closed one
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
