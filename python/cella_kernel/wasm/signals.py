"""Signals that the code sends itself: there is no process to send them to, so what they would do is done at once."""

from __future__ import annotations

import _thread
import errno
import functools
import os
import signal

from ..interrupts import Interrupts
from .bell import Bell

_FATAL = (signal.SIGKILL, signal.SIGSTOP)
_HARMLESS = (signal.SIGCHLD, signal.SIGURG, signal.SIGWINCH, signal.SIGCONT)


def install(bell: Bell, interrupts: Interrupts) -> None:
    os.kill = functools.partial(_kill, bell, interrupts)
    signal.raise_signal = functools.partial(_raise, bell, interrupts)
    _thread.interrupt_main = functools.partial(_interrupt_main, interrupts)


def _kill(bell: Bell, interrupts: Interrupts, pid: int, number: int, /) -> None:
    if pid != os.getpid():
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
    _raise(bell, interrupts, number)


def _raise(bell: Bell, interrupts: Interrupts, number: int, /) -> None:
    handler = signal.getsignal(number) if number else None
    if callable(handler):
        _interrupt_main(interrupts, number)
    elif number in _FATAL or (number and handler == signal.SIG_DFL and number not in _HARMLESS):
        bell.end(number)
        os._exit(128 + number)


def _interrupt_main(interrupts: Interrupts, number: int = signal.SIGINT, /) -> None:
    handler = signal.getsignal(number)
    if callable(handler):
        interrupts.expect_own()
        handler(number, None)
