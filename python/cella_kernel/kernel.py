"""One live interpreter: takes frames from the host, runs cells on the main thread, answers with frames."""

from __future__ import annotations

import _thread
import builtins
import fcntl
import json
import os
import signal
import socket
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
# The kernel's own descriptors: high numbers, so that code that closes everything it can count to does not hit them,
# and always the same, so that a kernel can be built before they are there.
_CONTROL, _OUT, _ERR, _OUT_READER, _ERR_READER = _OWN = range(256, 261)
_ABOVE = 512
_SPAWNS = frozenset(("os.system", "subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "pty.spawn"))
_REHEARSALS = 20
# The payload of a result may not be larger than what the host takes in one frame.
_LARGEST_VALUE = 60 << 20
_LONGEST_PROMPT = 1 << 16


class Kernel:
    """Built once, in the template, so that every kernel forked from it shares the memory of its machinery."""

    def __init__(self) -> None:
        self._interrupts = Interrupts()
        self._switchboard = Switchboard(_CONTROL, self._interrupts)
        self._output = Output((_OUT, _ERR), (_OUT_READER, _ERR_READER))
        # 0 until a process has become a kernel: hooks do nothing before that.
        self._pid = 0
        module = ModuleType("__main__")
        module.__dict__["__builtins__"] = builtins
        self._main = module
        self._namespace = module.__dict__
        self._runner = cells.Runner(self._namespace, self._interrupts)
        self._executing = 0
        # Held from a mark to its frame, so that a thread's display never comes between an execution and its end.
        self._ordering = _thread.RLock()
        self._builtins = dict(vars(builtins))
        os.register_at_fork(after_in_child=self._in_child)
        sys.addaudithook(self._before_children)

    def install(self) -> None:
        """Takes the places that user code looks at."""
        sys.modules["__main__"] = self._main
        asking.install(self._ask)
        sources.install()
        sys.meta_path.insert(0, figures.PyplotFinder())  # type: ignore[arg-type]
        builtins.display = self._display  # type: ignore[attr-defined]
        self._builtins = dict(vars(builtins))

    def rehearse(self) -> None:
        """Runs a few cells against nobody: what the interpreter adapts to its first calls is then shared by all kernels."""
        host, ours = socket.socketpair()
        pipes = [os.pipe(), os.pipe()]
        ends = (ours.fileno(), pipes[0][1], pipes[1][1], pipes[0][0], pipes[1][0])
        for fd, number in zip(ends, _OWN):
            os.dup2(fd, number, inheritable=False)
        for number in range(_REHEARSALS):
            self._execute(number, bytes(_MARK_BYTES) + b"rehearsed = 1\n")
            self._execute(number, bytes(_MARK_BYTES) + b"rehearsed\n")
            host.recv(65536)
        self._forget_rehearsal()
        host.close()
        ours.close()
        for fd in (*_OWN, *pipes[0], *pipes[1]):
            os.close(fd)

    def limber(self) -> None:
        """In a spare: touches the memory that the first cell will touch, while nobody waits for it."""
        if not self._switchboard.readable():
            self._add_value({}, self._runner.run(0, "rehearsed = 1\nrehearsed"))
            json.loads(json.dumps({"sample": [1, "text"]}))
            self._forget_rehearsal()

    def _forget_rehearsal(self) -> None:
        for name in ("rehearsed", "_", "__", "___"):
            self._namespace.pop(name, None)
        sources.forget_all()

    def adopt(self, descriptors: List[int], doorbell: Doorbell) -> None:
        """This process becomes the kernel. `descriptors`: the connection, both pipes' writing ends, then their reading ends."""
        moved = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _ABOVE) for fd in descriptors]
        for fd, number in zip(moved, _OWN):
            os.dup2(fd, number, inheritable=False)
        os.dup2(_OUT, 1)
        os.dup2(_ERR, 2)
        for fd in (*descriptors, *moved):
            os.close(fd)
        for name in ("SIGPIPE", "SIGXFSZ"):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
        self._interrupts.arm(doorbell)
        self._output.install()
        _reseed()
        self._pid = os.getpid()

    def policy(self) -> Dict[str, Any]:
        """The first thing that the host sends: what this kernel must close itself in with."""
        kind, _, payload = self._switchboard.next_frame()
        if kind != frames.START:
            raise ValueError("the first frame of a kernel must be START")
        return json.loads(payload)

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
        with self._ordering:
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
            # Not by a call, at whose beginning an interrupt could still come: here nothing would catch it.
            self._interrupts.active = 0
        except BaseException as error:
            self._interrupts.active = 0
            result = {"status": "error", "error": cells.describe(error)}
            if result["error"].get("exitCode") == 0:
                result = {"status": "ok"}
        self._interrupts.finish(number)
        if self._pid and os.getpid() != self._pid:
            # A child that the cell forked, and that came to the cell's end: this kernel is not its own.
            self._output.flush()
            os._exit(0 if result["status"] == "ok" else 1)
        with self._ordering:
            result["marks"] = self._output.end()
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
        size = len(pack(bundle))
        if size > _LARGEST_VALUE:
            raise ValueError("a display of %d bytes is too large: %d are allowed" % (size, _LARGEST_VALUE))
        with self._interrupts, self._ordering:
            marks = self._output.sync(always=True)
            self._switchboard.send(frames.DISPLAY, self._executing, pack({"data": bundle, "marks": marks}))

    def _ask(self, prompt: str, password: bool) -> str:
        with self._interrupts, self._ordering:
            marks = self._output.sync()
            executing = self._executing
        shown = str.__str__(prompt)[:_LONGEST_PROMPT]
        params = {"execution": executing, "prompt": shown, "password": password, "marks": marks}
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
            self._interrupts.active = 0
            answer = {"error": cells.describe(error)}
        self._interrupts.finish(number)
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
        if self._pid and event in _SPAWNS:
            self._output.flush()

    def _in_child(self) -> None:
        """A fork by the code: the child keeps the output, and loses the host."""
        if not self._pid:
            return
        self._ordering = _thread.RLock()
        self._output.after_fork()
        os.close(self._switchboard.fd)


the_kernel: Optional[Kernel] = None


def build() -> None:
    """In the template: makes the kernel that every process forked from it may become."""
    global the_kernel
    the_kernel = Kernel()
    the_kernel.install()
    the_kernel.rehearse()


def publish(bundle: Dict[str, Any]) -> None:
    if the_kernel is not None:
        the_kernel.publish(bundle)


def _reseed() -> None:
    """Kernels come from one template: what is random must differ all the same."""
    for name in ("random", "numpy.random"):
        module = sys.modules.get(name)
        if module is not None:
            module.seed()
    main_thread = getattr(sys.modules.get("threading"), "_main_thread", None)
    if main_thread is not None and hasattr(main_thread, "_set_native_id"):
        main_thread._set_native_id()
