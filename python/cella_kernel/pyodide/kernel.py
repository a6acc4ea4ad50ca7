"""The kernel without processes: interrupts come from a device, and signals that the code sends itself act at once."""

from __future__ import annotations

import _thread
import errno
import functools
import os
import signal
import struct
import sys
from posix import read, write
from typing import Any, Dict, FrozenSet, Tuple

from .. import cell_sources, protocol
from ..interrupts import Interrupts
from ..kernel.kernel import Kernel
from ..values import pack
from . import saving
from .undo_log import UndoLog

_WORD = struct.Struct("<I")


class InterruptDevice:
    def __init__(self, fd: int) -> None:
        self._fd = fd

    def target(self) -> int:
        return int(_WORD.unpack(read(self._fd, 4))[0])

    def acknowledge(self) -> None:
        write(self._fd, b"h")

    def end(self, number: int) -> None:
        """The process is about to end, by its own signal."""
        write(self._fd, b"k" + _WORD.pack(number))

    def alarm(self, seconds: float) -> None:
        """A SIGALRM after that time; 0 for none any more."""
        write(self._fd, b"a" + _WORD.pack(max(2, int(seconds * 1000)) if seconds else 1))


_FATAL = (signal.SIGKILL, signal.SIGSTOP)
_HARMLESS = (signal.SIGCHLD, signal.SIGURG, signal.SIGWINCH, signal.SIGCONT)


def _install_signals(device: InterruptDevice, interrupts: Interrupts) -> None:
    os.kill = functools.partial(_kill, device, interrupts)
    signal.raise_signal = functools.partial(_raise, device, interrupts)
    _thread.interrupt_main = functools.partial(_interrupt_main, interrupts)


def _kill(device: InterruptDevice, interrupts: Interrupts, pid: int, number: int, /) -> None:
    if pid != os.getpid():
        raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
    _raise(device, interrupts, number)


def _raise(device: InterruptDevice, interrupts: Interrupts, number: int, /) -> None:
    handler = signal.getsignal(number) if number else None
    if callable(handler):
        _interrupt_main(interrupts, number)
    elif number in _FATAL or (number and handler == signal.SIG_DFL and number not in _HARMLESS):
        device.end(number)
        os._exit(128 + number)


def _interrupt_main(interrupts: Interrupts, number: int = signal.SIGINT, /) -> None:
    handler = signal.getsignal(number)
    if callable(handler):
        interrupts.expect_own()
        handler(number, None)


class PyodideKernel(Kernel):
    def __init__(self) -> None:
        super().__init__()
        # There is no thread to flush what was printed: it goes out at once.
        self._output.flush_at_once()
        self._snapshots: Dict[int, Tuple[UndoLog, FrozenSet[Any]]] = {}

    def warm_up(self, rounds: int = 20) -> None:
        for number in range(rounds):
            self._runner.run(0, "warm = %d\nwarm\n" % number)
        self._forget_warm_up()

    def adopt(self) -> None:  # type: ignore[override]
        """The descriptors are there already."""
        sys.modules["__main__"] = self._main
        self.interrupt_device = InterruptDevice(protocol.FD_REGISTRATION)
        self._interrupts.arm(self.interrupt_device)  # type: ignore[arg-type]
        _install_signals(self.interrupt_device, self._interrupts)
        self._output.install()
        self._pid = os.getpid()
        self._host.belong_to(self._pid)

    def _handle(self, kind: int, number: int, payload: bytes) -> None:
        if kind == protocol.ATTACH:
            # Not JSON: its module uses builtins, which the code may have replaced, and which come back only now.
            self._go_back(number, payload == b"keep")
        elif kind == protocol.DROP_SNAPSHOT:
            self._snapshots.pop(number, None)
        else:
            super()._handle(kind, number, payload)

    def _take_snapshot(self, number: int) -> None:
        """Takes a snapshot: what the variables hold, as far as it can be restored."""
        answer: Dict[str, Any] = {}
        try:
            self._snapshots[number] = UndoLog(self._namespace), self._runner.tasks()
        except Exception as error:
            answer = {"unsafe": "its names could not be kept: %s" % (str(error) or type(error).__name__)}
        self._host.send(protocol.SNAPSHOT_TAKEN, number, pack(answer))

    def _go_back(self, number: int, keep: bool) -> None:
        log, tasks = self._snapshots[number] if keep else self._snapshots.pop(number)
        log.restore()
        self._host.start_over()
        self._runner.end_tasks_but(tasks)
        self._repair()
        self._interrupts.arm(self.interrupt_device)  # type: ignore[arg-type]
        self._say_hello()

    def _save(self, number: int, settings: Dict[str, Any]) -> None:
        self._output.flush()
        send = functools.partial(self._send_as, number)
        texts, limit, seconds = cell_sources.texts(), settings["limitBytes"], settings["seconds"]
        saving.save(send, self.interrupt_device.alarm, self._namespace, texts, limit, seconds)
