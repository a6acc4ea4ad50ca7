"""One live interpreter: takes frames from the host, runs cells on the main thread, answers with frames."""

from __future__ import annotations

import builtins
import fcntl
import json
import os
import signal
import sys
from types import ModuleType
from typing import Any, Dict, List, Optional

from . import asking, cells, display, figures, frames, introspection, sources
from .doorbell import Doorbell
from .interrupts import Interrupts
from .streams import Output
from .switchboard import CallError, Switchboard
from .values import pack, portable, short_repr

_MARK_BYTES = 16
# The lowest number of the kernel's own descriptors; the limit on open files is never lower than this and a few.
_HIGH = 256
_SPAWNS = frozenset(("os.system", "subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "pty.spawn"))
# The payload of a result may not be larger than what the host takes in one frame.
_LARGEST_VALUE = 60 << 20


class Kernel:
    def __init__(self, fd: int, doorbell: Doorbell, output: Output) -> None:
        self._interrupts = Interrupts(doorbell)
        self._switchboard = Switchboard(fd, self._interrupts)
        self._output = output
        self._pid = os.getpid()
        module = ModuleType("__main__")
        module.__dict__["__builtins__"] = builtins
        sys.modules["__main__"] = module
        self._namespace = module.__dict__
        self._runner = cells.Runner(self._namespace, self._interrupts)
        self._executing = 0
        asking.install(self._ask)
        sources.install()
        sys.meta_path.insert(0, figures.PyplotFinder())  # type: ignore[arg-type]
        sys.addaudithook(self._before_children)
        builtins.display = self._display  # type: ignore[attr-defined]
        self._builtins = dict(vars(builtins))
        os.register_at_fork(after_in_child=self._in_child)

    def serve(self) -> None:
        hello = {"python": "%d.%d.%d" % sys.version_info[:3], "implementation": sys.implementation.name}
        self._switchboard.send(frames.HELLO, 0, pack(hello))
        while True:
            if not self._switchboard.waiting():
                self._runner.go_on(self._switchboard.fd)
            kind, number, payload = self._switchboard.next_frame()
            if kind == frames.EXECUTE:
                self._execute(number, payload)
            elif kind == frames.REQUEST:
                self._answer(number, json.loads(payload))

    def _execute(self, number: int, payload: bytes) -> None:
        self._executing = number
        self._output.begin(payload[:_MARK_BYTES])
        source = payload[_MARK_BYTES:].decode("utf-8", "surrogatepass")
        result: Dict[str, Any] = {"status": "ok"}
        try:
            try:
                value = self._runner.run(number, source)
            finally:
                self._repair()
            if value is not None:
                self._interrupts.begin(number)
                self._add_value(result, value)
            self._show_figures(number)
        except BaseException as error:
            self._interrupts.end()
            result = {"status": "error", "error": cells.describe(error)}
            if result["error"].get("exitCode") == 0:
                result = {"status": "ok"}
        self._interrupts.end()
        if os.getpid() != self._pid:
            # A child that the cell forked, and that came to the cell's end: this kernel is not its own.
            self._output.flush()
            os._exit(0 if result["status"] == "ok" else 1)
        result["marks"] = self._output.sync()
        self._executing = 0
        self._switchboard.send(frames.RESULT, number, pack(result))

    def _add_value(self, result: Dict[str, Any], value: Any) -> None:
        namespace = self._namespace
        namespace["___"], namespace["__"], namespace["_"] = namespace.get("__"), namespace.get("_"), value
        bundle = display.bundle(value)
        text, cut = short_repr(value)
        result["repr"] = text
        if cut:
            result["reprCut"] = cut
        result["value"] = portable(value)
        if bundle:
            result["data"] = bundle
        if len(pack(result)) > _LARGEST_VALUE:
            result["value"] = {(type(value).__name__, text)}
            result.pop("data", None)

    def _show_figures(self, number: int) -> None:
        if "matplotlib.pyplot" in sys.modules:
            self._interrupts.begin(number)
            figures.show_all()

    def _display(self, *values: Any) -> None:
        """Show values in the middle of a cell, as rich as they can be shown."""
        for value in values:
            text, _ = short_repr(value)
            self.publish({**(display.bundle(value) or {}), "text/plain": text})

    def publish(self, bundle: Dict[str, Any]) -> None:
        with self._interrupts:
            marks = self._output.sync(always=True)
            self._switchboard.send(frames.DISPLAY, self._executing, pack({"data": bundle, "marks": marks}))

    def _ask(self, prompt: str, password: bool) -> str:
        with self._interrupts:
            marks = self._output.sync()
        params = {"execution": self._executing, "prompt": prompt, "password": password, "marks": marks}
        try:
            return str(self._switchboard.call("input", params))
        except CallError as error:
            raise EOFError(str(error)) from None

    def _answer(self, number: int, request: Dict[str, Any]) -> None:
        try:
            self._interrupts.begin(number)
            try:
                value = introspection.answer(self._namespace, request["method"], request["params"])
            finally:
                self._interrupts.end()
            answer = {"value": value}
        except BaseException as error:
            answer = {"error": cells.describe(error)}
        self._repair()
        self._switchboard.send(frames.ANSWER, number, pack(answer))

    def _repair(self) -> None:
        """Puts back what every later cell needs: names of builtins that the code deleted."""
        present = builtins.__dict__
        if len(present) < len(self._builtins):
            for name, value in self._builtins.items():
                present.setdefault(name, value)

    def _before_children(self, event: str, _arguments: Any) -> None:
        """Text that was printed before a child starts comes out before what the child writes."""
        if event in _SPAWNS:
            self._output.flush()

    def _in_child(self) -> None:
        """A fork by the code: the child keeps the output, and loses the host."""
        self._output.after_fork()
        os.close(self._switchboard.fd)


_kernel: Optional[Kernel] = None


def publish(bundle: Dict[str, Any]) -> None:
    if _kernel is not None:
        _kernel.publish(bundle)


def prepare(descriptors: List[int], doorbell: Doorbell, keep: List[int]) -> Kernel:
    """A kernel that is ready to `serve`. `descriptors`: the connection, stdout and stderr; `keep`: others still needed."""
    global _kernel
    # High numbers, so that code that closes everything it can count to does not hit them.
    control, out, err = (fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _HIGH) for fd in descriptors)
    os.dup2(out, 1)
    os.dup2(err, 2)
    first = 3
    for fd in sorted(keep):
        os.closerange(first, fd)
        first = fd + 1
    os.closerange(first, _HIGH)
    for name in ("SIGPIPE", "SIGXFSZ"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)
    _reseed()
    _kernel = Kernel(control, doorbell, Output(out, err))
    return _kernel


def _reseed() -> None:
    """Kernels come from one template: what is random must differ all the same. `random` reseeds itself on fork."""
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()
