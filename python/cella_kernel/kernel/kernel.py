"""One live interpreter: receives frames from the host, runs cells on the main thread, and answers with frames."""

from __future__ import annotations

import _thread
import builtins
import fcntl
import functools
import json
import os
import signal
import sys
import time
from types import ModuleType
from typing import Any, Callable, Dict, List, Optional, Sequence

from .. import cell_sources, introspection, namespaces, packages, protocol
from ..durable.variables import LAST_RESULTS
from ..host_connection import CallError, HostConnection
from ..interrupts import Interrupts, InterruptSlot, uninterrupted
from ..protocol import KERNEL_FDS, LARGEST_ANSWER_BYTES, LARGEST_VALUE_BYTES, LEAST_OPEN_FILES, LONGEST_PROMPT, MARKER_BYTES
from ..sandbox import linux
from ..sandbox.linux import LayerError
from ..values import oversize, pack, portable, short_repr
from . import cells, checkpoint_io, display, execution_context, snapshot, stdin, warm_up
from .output import Output

_CONTROL, _OUT, _ERR, _OUT_READER, _ERR_READER, _REGISTRATION = KERNEL_FDS
_ABOVE = LEAST_OPEN_FILES - 64
_SPAWNS = frozenset(("os.system", "subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "pty.spawn"))


class Kernel:
    """Built once, in the template, so that all kernels forked from it share its memory."""

    def __init__(self) -> None:
        self._interrupts = Interrupts()
        self._host = HostConnection(_CONTROL, self._interrupts)
        self._output = Output((_OUT, _ERR), (_OUT_READER, _ERR_READER))
        # 0 until this process has become a kernel: until then, hooks do nothing.
        self._pid = 0
        module = ModuleType("__main__")
        module.__dict__["__builtins__"] = builtins
        self._main = module
        self._namespace = module.__dict__
        self._runner = cells.CellRunner(self._namespace, self._interrupts)
        self._executing = 0
        # Whether this kernel was started ahead and no session has taken it yet.
        self._spare = False
        # Held from the markers in the output to their frame, so that displays of other threads stay in order with both.
        self._ordering = _thread.RLock()
        self._incoming = checkpoint_io.IncomingSegments()
        self._builtins = dict(vars(builtins))
        os.register_at_fork(after_in_child=self._in_child)
        sys.addaudithook(self._before_children)

    def install(self) -> None:
        """Replaces what user code sees: `__main__`, `input`, `display` and so on."""
        sys.modules["__main__"] = self._main
        stdin.install(self._ask)
        cell_sources.install()
        display.install_figures(self.publish)
        execution_context.install()
        builtins.display = self._display  # type: ignore[attr-defined]
        namespaces.install(self._host)
        self._builtins = dict(vars(builtins))

    def become_spare(self) -> None:
        """This kernel is started ahead, without a session."""
        self.warm_up(rounds=2)
        _reseed()
        self._spare = True

    def warm_up(self, rounds: int = warm_up.ROUNDS) -> None:
        """Runs a few cells without a host, in the template or in a spare. See warm_up.py."""
        with warm_up.standalone_host() as (send_start, discard):
            for _ in range(rounds):
                send_start()
                self._handle(*self._host.next_frame())
                for cell in warm_up.CELLS:
                    self._execute(0, cell, self._host.send)
                discard()
        self._forget_warm_up()

    def _warm_up_first_cell(self, rounds: int = 1) -> None:
        """Does in a spare what its first cell will do, and sends nothing, so that the memory for it is ready."""
        for _ in range(rounds):
            self._execute(0, warm_up.FIRST_CELL, _discard)
        self._forget_warm_up()
        self._spare = True

    def _forget_warm_up(self) -> None:
        for name in (warm_up.VARIABLE, *LAST_RESULTS):
            self._namespace.pop(name, None)
        cell_sources.forget_all()

    def adopt(self, descriptors: List[int], registration: int, slot: InterruptSlot) -> None:
        """This process becomes the kernel. `descriptors`: the connection, the writing ends of two pipes, their reading ends."""
        self._move([*descriptors, registration], KERNEL_FDS)
        for name in ("SIGPIPE", "SIGXFSZ"):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
        self._interrupts.arm(slot)
        self._output.install()
        _fix_main_thread_id()
        self._pid = os.getpid()
        self._host.belong_to(self._pid)

    def _move(self, descriptors: List[int], numbers: Sequence[int]) -> None:
        moved = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _ABOVE) for fd in descriptors]
        for fd, number in zip(moved, numbers):
            os.dup2(fd, number, inheritable=False)
        for fd in {*descriptors, *moved} - set(numbers):
            os.close(fd)
        os.dup2(_OUT, 1)
        os.dup2(_ERR, 2)

    def serve(self) -> None:
        if self._spare:
            self._wait_for_session()
        else:
            self._send_hello()
        while True:
            if not self._host.waiting():
                self._runner.run_between_cells(self._host)
            self._handle(*self._host.next_frame())

    def _wait_for_session(self) -> None:
        """In a spare: waits until a session takes this kernel, or is about to."""
        # Its private memory is then allocated before a session waits for it.
        self._warm_up_first_cell(warm_up.SPARE_ROUNDS)
        scheduling = warm_up.SpareScheduling()
        self._send_hello()
        kind, number, payload = self._host.first_frame()
        if kind == protocol.START and number:
            scheduling.leave_processor(number - 1)
        self._handle(kind, number, payload)
        scheduling.end()

    def _handle(self, kind: int, number: int, payload: bytes) -> None:
        if kind == protocol.EXECUTE:
            self._execute(number, payload, self._host.send)
        elif kind == protocol.REQUEST:
            self._answer(number, json.loads(payload))
        elif kind == protocol.SNAPSHOT:
            self._take_snapshot(number)
        elif kind == protocol.SAVE:
            self._save(number, json.loads(payload))
        elif kind == protocol.LOAD:
            self._load(number, payload)
        elif kind == protocol.START:
            self._start(json.loads(payload))

    def _send_hello(self) -> None:
        python, implementation = "%d.%d.%d" % sys.version_info[:3], sys.implementation.name
        hello = {"python": python, "implementation": implementation, "tag": self._output.new_tag()}
        self._host.send(protocol.HELLO, 0, pack(hello))

    def _start(self, settings: Dict[str, Any]) -> None:
        """Applies the settings of the session, before its first cell."""
        os.environ.update(settings["env"])
        if "TZ" in settings["env"]:
            time.tzset()
        if settings["reseed"]:
            _reseed()
        if settings.get("packages"):
            packages.use(settings["packages"])
        if self._spare:
            # A START without settings says that a session is about to take this spare: there is time to warm up. With
            # settings, the session has taken it, and the cell can come at once.
            if not settings["env"] and not settings.get("packages"):
                self._warm_up_first_cell()
            self._host.expect_frame()

    def _take_snapshot(self, number: int) -> None:
        """Takes a snapshot, and reports whether that was possible. The snapshot returns here when it becomes a kernel."""
        answer: Dict[str, Any] = {}
        try:
            self._output.prepare_fork()
            restored = snapshot.take(number, _REGISTRATION, KERNEL_FDS[:-1])
        except (snapshot.ForkUnsafe, LayerError, OSError) as error:
            answer, restored = {"unsafe": str(error)}, None
        if restored is not None:
            self._restore_snapshot(restored)
        else:
            self._host.send(protocol.SNAPSHOT_TAKEN, number, pack(answer))

    def _save(self, number: int, settings: Dict[str, Any]) -> None:
        self._output.prepare_fork()
        send = functools.partial(self._send_as, number)
        checkpoint_io.save(send, self._namespace, cell_sources.texts(), settings["limitBytes"], settings["seconds"])

    def _send_as(self, number: int, kind: int, payload: bytes) -> None:
        self._host.send(kind, number, payload)

    def _load(self, number: int, payload: bytes) -> None:
        python = self._incoming.add(payload)
        if python is None:
            return
        incoming, self._incoming = self._incoming, checkpoint_io.IncomingSegments()
        try:
            outcome = incoming.load(self._namespace, python, cell_sources.remember_again)
        except BaseException as error:
            # The kernel continues with the variables that were loaded.
            outcome = {"restored": [], "lost": [{"name": "*", "reason": cells.describe(error)["message"][:300]}]}
        self._repair()
        self._output.flush()
        self._host.send(protocol.LOADED, number, pack(outcome))

    def _restore_snapshot(self, restored: snapshot.RestoredSnapshot) -> None:
        """In a snapshot: this process becomes the kernel, in the state of the snapshot."""
        self._pid = os.getpid()
        self._host.belong_to(self._pid)
        self._move(restored.descriptors, KERNEL_FDS[:-1])
        self._host.start_over()
        self._ordering = _thread.RLock()
        self._output.after_fork()
        self._runner.after_fork()
        self._interrupts.move(restored.slot)
        _fix_main_thread_id()
        linux.die_with_parent()
        self._send_hello()

    @uninterrupted
    def _execute(self, number: int, payload: bytes, tell: Callable[[int, int, bytes], None]) -> None:
        self._spare = False
        with self._ordering:
            self._executing = number
            self._output.begin(payload[:MARKER_BYTES], number, bool(execution_context.live_threads) or self._runner.leaves_work)
        execution_context.execution.set(number)
        source = payload[MARKER_BYTES:].decode("utf-8", "surrogatepass")
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
            self._interrupts.end()
        except BaseException as error:
            self._interrupts.end()
            result = {"status": "error", "error": cells.describe(error)}
            if result["error"].get("exitCode") == 0:
                result = {"status": "ok", "exitCode": 0}
        self._interrupts.finish(number)
        if self._pid and os.getpid() != self._pid:
            # A child that the cell has forked and that has reached the end of the cell. It is not the kernel.
            self._output.flush()
            os._exit(0 if result["status"] == "ok" else 1)
        with self._ordering:
            result["markers"] = self._output.end()
            self._executing = 0
            tell(protocol.RESULT, number, pack(result))
        execution_context.execution.set(0)

    def _add_value(self, result: Dict[str, Any], value: Any) -> None:
        namespace = self._namespace
        namespace["___"], namespace["__"], namespace["_"] = namespace.get("__"), namespace.get("_"), value
        bundle, left_out = display.bundle(value)
        text, cut = short_repr(value)
        result["repr"] = text
        if cut:
            result["reprCut"] = cut
        result["value"] = portable(value)
        if len(pack(result["value"])) > LARGEST_VALUE_BYTES:
            result["value"] = oversize(value)
        if bundle and len(pack(bundle)) > LARGEST_VALUE_BYTES:
            bundle, left_out = {}, left_out + len(bundle)
        if bundle:
            result["data"] = bundle
        if left_out:
            result["dataCut"] = left_out

    def _show_figures(self, number: int) -> None:
        if "matplotlib.pyplot" in sys.modules:
            self._interrupts.begin(number)
            display.show_figures()

    def _display(self, *values: Any) -> None:
        """Shows values in the middle of a cell, in their richest form."""
        for value in values:
            text, _ = short_repr(value)
            bundle, left_out = display.bundle(value)
            self.publish({**bundle, "text/plain": text}, left_out)

    def publish(self, bundle: Dict[str, Any], left_out: int = 0) -> None:
        if os.getpid() != self._pid:
            return  # a child that the code has forked: it has no connection to the host
        size = len(pack(bundle))
        if size > LARGEST_VALUE_BYTES:
            raise ValueError("a display of %d bytes is too large: at most %d are allowed" % (size, LARGEST_VALUE_BYTES))
        with self._interrupts, self._ordering:
            owner = execution_context.execution.get() or self._executing
            if owner == self._executing:
                markers = self._output.sync(always=True)
            else:
                # From a thread or task of an earlier cell: the output of the current cell need not come first.
                self._output.flush()
                markers = 0, 0
            shown = {"data": bundle, "markers": markers, **({"dataCut": left_out} if left_out else {})}
            self._host.send(protocol.DISPLAY, owner, pack(shown))

    def _ask(self, prompt: str, password: bool) -> str:
        with self._interrupts, self._ordering:
            markers = self._output.sync()
            executing = self._executing
        shown = str.__str__(prompt)[:LONGEST_PROMPT]
        params = {"execution": executing, "prompt": shown, "password": password, "markers": markers}
        try:
            return str(self._host.call("input", params))
        except CallError as error:
            raise EOFError(str(error)) from None

    @uninterrupted
    def _answer(self, number: int, request: Dict[str, Any]) -> None:
        try:
            self._interrupts.begin(number)
            try:
                value = introspection.answer(self._namespace, request["method"], request["params"])
            finally:
                self._interrupts.end()
            answer = pack({"value": value})
            if len(answer) > LARGEST_ANSWER_BYTES:
                raise ValueError("the answer is too large: %d bytes, at most %d are allowed" % (len(answer), LARGEST_ANSWER_BYTES))
        except BaseException as error:
            self._interrupts.end()
            answer = pack({"error": cells.describe(error)})
        self._interrupts.finish(number)
        self._repair()
        self._host.send(protocol.ANSWER, number, answer)

    def _repair(self) -> None:
        """Restores builtins that the code has deleted, because later cells need them."""
        present = builtins.__dict__
        if len(present) < len(self._builtins):
            for name, value in self._builtins.items():
                present.setdefault(name, value)

    def _before_children(self, event: str, _arguments: Any) -> None:
        """An audit hook: before a child starts, flushes output, so that it comes before the child's."""
        if self._pid and event in _SPAWNS:
            self._output.flush()

    def _in_child(self) -> None:
        """In a child that the code has forked: it keeps the output and closes the connection to the host."""
        if not self._pid:
            return
        self._ordering = _thread.RLock()
        execution_context.forget()
        self._output.after_fork()
        os.close(self._host.fd)


the_kernel: Optional[Kernel] = None


def preload(names: Sequence[str]) -> List[Dict[str, str]]:
    """Imports modules for all kernels. Returns those that could not be imported, with the reason."""
    failed = []
    for name in names:
        try:
            __import__(name)
        except Exception as error:  # a module can raise anything
            failed.append({"name": name, "reason": "%s: %s" % (type(error).__name__, error)})
    return failed


def build() -> None:
    """In the template: creates the kernel that processes forked from it can become."""
    global the_kernel
    # Saves and loads use it, and importing it takes as long as the rest of a save.
    preload(["cloudpickle"])
    # Imports have filled the interpreter's lookup cache: replacing its entries would cost each kernel private pages.
    if hasattr(sys, "_clear_type_cache"):
        sys._clear_type_cache()
    the_kernel = Kernel()
    the_kernel.install()
    the_kernel.warm_up()


def _reseed() -> None:
    """Gives this kernel random numbers of its own, as all kernels are forked from one template."""
    random = sys.modules.get("random")
    if random is not None:
        random.seed()
    numpy = sys.modules.get("numpy")
    if numpy is not None and "numpy.random" in sys.modules:
        # Seeding without an array takes a hundred times as long.
        numpy.random.seed(numpy.frombuffer(os.urandom(64), dtype="u4"))


def _discard(_kind: int, _number: int, _payload: bytes) -> None:
    pass


def _fix_main_thread_id() -> None:
    """Corrects the id of the main thread after a fork without Python's hooks."""
    main_thread = getattr(sys.modules.get("threading"), "_main_thread", None)
    if main_thread is not None and hasattr(main_thread, "_set_native_id"):
        main_thread._set_native_id()
