"""The kernel in Pyodide: built once for the memory image, then served in every worker that starts from that image.

There are no processes and no threads. Interrupts come from a device, and signals that the code sends itself act at once.
"""

from __future__ import annotations

import _thread
import errno
import functools
import gc
import importlib
import os
import pkgutil
import signal
import struct
import sys
import traceback
from posix import read, write
from typing import Any, Dict, FrozenSet, List, Tuple

from .. import cell_sources, protocol
from ..interrupts import Interrupts
from ..kernel import kernel
from ..values import pack
from . import saving, shims
from .undo_log import UndoLog

_WORD = struct.Struct("<I")


class InterruptDevice:
    """In place of an interrupt slot, with the same methods for the kernel: the worker handles what is read and written."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def target(self) -> int:
        return int(_WORD.unpack(read(self._fd, 4))[0])

    def acknowledge(self) -> None:
        write(self._fd, b"h")

    def end(self, number: int) -> None:
        """Reports that the kernel is about to end by this signal."""
        write(self._fd, b"k" + _WORD.pack(number))

    def alarm(self, seconds: float) -> None:
        """Requests a SIGALRM after this time; 0 cancels it."""
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


class PyodideKernel(kernel.Kernel):
    def __init__(self) -> None:
        super().__init__()
        # Without threads, nothing could flush output later.
        self._output.flush_at_once()
        self._snapshots: Dict[int, Tuple[UndoLog, FrozenSet[Any]]] = {}

    def warm_up(self, rounds: int = 20) -> None:
        for number in range(rounds):
            self._runner.run(0, "warm = %d\nwarm\n" % number)
        self._forget_warm_up()

    def adopt(self) -> None:  # type: ignore[override]
        """Becomes the kernel. The worker has opened the descriptors."""
        sys.modules["__main__"] = self._main
        self.interrupt_device = InterruptDevice(protocol.FD_REGISTRATION)
        self._interrupts.arm(self.interrupt_device)  # type: ignore[arg-type]
        _install_signals(self.interrupt_device, self._interrupts)
        self._output.install()
        self._pid = os.getpid()
        self._host.belong_to(self._pid)

    def _handle(self, kind: int, number: int, payload: bytes) -> None:
        if kind == protocol.ATTACH:
            # Not JSON: the json module uses builtins that the code may have replaced and that this restores.
            self._restore(number, keep=payload == b"keep")
        elif kind == protocol.DROP_SNAPSHOT:
            self._snapshots.pop(number, None)
        else:
            super()._handle(kind, number, payload)

    def _take_snapshot(self, number: int) -> None:
        """Notes what the variables hold, as far as it can be restored."""
        answer: Dict[str, Any] = {}
        try:
            self._snapshots[number] = UndoLog(self._namespace), self._runner.tasks()
        except Exception as error:
            answer = {"unsafe": "the variables could not be recorded: %s" % (str(error) or type(error).__name__)}
        self._host.send(protocol.SNAPSHOT_TAKEN, number, pack(answer))

    def _restore(self, number: int, keep: bool) -> None:
        log, tasks = self._snapshots[number] if keep else self._snapshots.pop(number)
        log.restore()
        self._host.start_over()
        self._runner.cancel_tasks_except(tasks)
        self._repair()
        self._interrupts.arm(self.interrupt_device)  # type: ignore[arg-type]
        self._send_hello()

    def _save(self, number: int, settings: Dict[str, Any]) -> None:
        self._output.flush()
        send = functools.partial(self._send_as, number)
        texts, limit, seconds = cell_sources.texts(), settings["limitBytes"], settings["seconds"]
        saving.save(send, self.interrupt_device.alarm, self._namespace, texts, limit, seconds)


# Modules that are not in the image: those that need processes, and those that are run and not imported.
_NOT_IN_IMAGE = (".__main__", ".pyodide.entry", ".sandbox.", ".supervisor", ".files")

not_preloaded: List[Dict[str, str]] = []


def build(preload: List[str]) -> None:
    """Imports every module, so that the memory image holds it and no file of the kernel is read later."""
    package = sys.modules["cella_kernel"]
    for found in pkgutil.walk_packages(package.__path__, "cella_kernel."):
        if not any(part in found.name for part in _NOT_IN_IMAGE):
            importlib.import_module(found.name)
    not_preloaded.extend(kernel.preload(preload))
    the_kernel = kernel.the_kernel = PyodideKernel()
    the_kernel.install()
    the_kernel.warm_up()
    gc.collect()
    gc.freeze()


def serve(env: Dict[str, str], cwd: str) -> None:
    """Never returns."""
    shims.install_sleep()
    the_kernel: Any = kernel.the_kernel
    os.environ.clear()
    os.environ.update(env)
    os.umask(0o022)
    os.chdir(cwd)
    sys.argv[:] = [""]
    sys.path[:] = [path for path in sys.path if path]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    the_kernel.adopt()
    shims.block_host_access()
    try:
        the_kernel.serve()
    except MemoryError:
        os._exit(protocol.EXIT_OUT_OF_MEMORY)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(protocol.EXIT_FAILED)
