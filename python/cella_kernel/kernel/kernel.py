"""One live interpreter: takes frames from the host, runs cells on the main thread, answers with frames."""

from __future__ import annotations

import _thread
import builtins
import fcntl
import functools
import json
import os
import signal
import socket
import sys
import time
from types import ModuleType
from typing import Any, Callable, Dict, List, Optional, Sequence

from .. import cell_sources, frames, introspection, namespaces, packages, protocol
from ..host_connection import CallError, HostConnection
from ..interrupt_slot import InterruptSlot
from ..interrupts import Interrupts, whole
from ..protocol import KERNEL_FDS, LARGEST_ANSWER_BYTES, LARGEST_VALUE_BYTES, LEAST_OPEN_FILES, LONGEST_PROMPT, MARKER_BYTES
from ..sandbox import linux
from ..sandbox.linux import LayerError
from ..values import oversize, pack, portable, short_repr
from . import cells, checkpoint_io, display, execution_context, snapshot, stdin
from .output import Output
from .spare_scheduling import SpareScheduling

_CONTROL, _OUT, _ERR, _OUT_READER, _ERR_READER, _REGISTRATION = KERNEL_FDS
_ABOVE = LEAST_OPEN_FILES - 64
_SPAWNS = frozenset(("os.system", "subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "pty.spawn"))
_WARM_UP_ROUNDS = 20
_WARM_UPS = 3
# It has what most first cells have: a name, a call, an operation and a value.
_WARM_UP = bytes(MARKER_BYTES) + b"warm = [0]\nlen(warm) + 1\n"


class Kernel:
    """Built once, in the template, so that every kernel forked from it shares the memory of its machinery."""

    def __init__(self) -> None:
        self._interrupts = Interrupts()
        self._host = HostConnection(_CONTROL, self._interrupts)
        self._output = Output((_OUT, _ERR), (_OUT_READER, _ERR_READER))
        # 0 until a process has become a kernel: hooks do nothing before that.
        self._pid = 0
        module = ModuleType("__main__")
        module.__dict__["__builtins__"] = builtins
        self._main = module
        self._namespace = module.__dict__
        self._runner = cells.CellRunner(self._namespace, self._interrupts)
        self._executing = 0
        # Started ahead, and not yet taken by a session.
        self._spare = False
        # Held from a mark to its frame, so that a thread's display never comes between an execution and its end.
        self._ordering = _thread.RLock()
        self._incoming = checkpoint_io.IncomingSegments()
        self._builtins = dict(vars(builtins))
        os.register_at_fork(after_in_child=self._in_child)
        sys.addaudithook(self._before_children)

    def install(self) -> None:
        """Takes the places that user code looks at."""
        sys.modules["__main__"] = self._main
        stdin.install(self._ask)
        cell_sources.install()
        display.install_figures(self.publish)
        execution_context.install()
        builtins.display = self._display  # type: ignore[attr-defined]
        namespaces.install(self._host)
        self._builtins = dict(vars(builtins))

    def be_spare(self) -> None:
        """This kernel is started ahead, without a session."""
        self.warm_up(rounds=2)
        _reseed()
        self._spare = True

    def warm_up(self, rounds: int = _WARM_UP_ROUNDS) -> None:
        """Runs a few cells without a host.

        In the template: what the interpreter adapts to its first calls is then shared by all kernels. In a spare: the
        memory that the first cell will write to becomes private ahead of time, while no session waits.
        """
        host, ours = socket.socketpair()
        pipes = [os.pipe(), os.pipe()]
        ends = (ours.fileno(), pipes[0][1], pipes[1][1], pipes[0][0], pipes[1][0], ours.fileno())
        for fd, number in zip(ends, KERNEL_FDS):
            os.dup2(fd, number, inheritable=False)
        sample = json.dumps({"env": {}, "reseed": False, "sample": [1, "text"]}).encode()
        for _ in range(rounds):
            host.sendall(frames.HEADER.pack(len(sample), protocol.START, 0) + sample)
            self._handle(*self._host.next_frame())
            for cell in (b"warm = 1\n", b"warm\n"):
                self._execute(0, bytes(MARKER_BYTES) + cell, self._host.send)
            host.recv(65536)
        self._forget_warm_up()
        host.close()
        ours.close()
        for fd in (*KERNEL_FDS, *pipes[0], *pipes[1]):
            os.close(fd)

    def _forget_warm_up(self) -> None:
        for name in ("warm", "_", "__", "___"):
            self._namespace.pop(name, None)
        cell_sources.forget_all()

    def _warm_up_spare(self, rounds: int = 1) -> None:
        """Does in a spare all that its first cell will do, without sending anything: the memory for it is then ready."""
        for _ in range(rounds):
            self._execute(0, _WARM_UP, _send_nowhere)
        self._forget_warm_up()
        self._spare = True

    def adopt(self, descriptors: List[int], registration: int, slot: InterruptSlot) -> None:
        """This process becomes the kernel. `descriptors`: the connection, both pipes' writing ends, then their reading ends."""
        taken = [*descriptors, registration]
        self._move(taken, KERNEL_FDS)
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
            self._sleep()
        else:
            self._say_hello()
        while True:
            if not self._host.waiting():
                self._runner.go_on(self._host)
            self._handle(*self._host.next_frame())

    def _sleep(self) -> None:
        """Waits until a session is about to take this kernel."""
        # So that its private memory is allocated before a session waits for it.
        self._warm_up_spare(_WARM_UPS)
        scheduling = SpareScheduling()
        self._say_hello()
        kind, number, payload = self._host.first_frame()
        if kind == protocol.START and number:
            scheduling.make_way(number - 1)
        self._handle(kind, number, payload)
        scheduling.get_up()

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

    def _say_hello(self) -> None:
        python, implementation = "%d.%d.%d" % sys.version_info[:3], sys.implementation.name
        hello = {"python": python, "implementation": implementation, "tag": self._output.new_tag()}
        self._host.send(protocol.HELLO, 0, pack(hello))

    def _start(self, settings: Dict[str, Any]) -> None:
        """What differs between sessions of one policy: it comes before the first cell."""
        os.environ.update(settings["env"])
        if "TZ" in settings["env"]:
            time.tzset()
        if settings["reseed"]:
            _reseed()
        if settings.get("packages"):
            packages.use(settings["packages"])
        if self._spare:
            # A session is about to take it and to send a cell: it should be awake by then. With settings of its own, the
            # session has taken it already, and the cell may come at once.
            if not settings["env"] and not settings.get("packages"):
                self._warm_up_spare()
            self._host.expect()

    def _take_snapshot(self, number: int) -> None:
        """Takes a snapshot: a fork that can become a kernel at any time. Reports whether it could be made."""
        answer: Dict[str, Any] = {}
        try:
            self._output.rest()
            restored = snapshot.take(number, _REGISTRATION, KERNEL_FDS[:-1])
        except (snapshot.ForkUnsafe, LayerError, OSError) as error:
            answer, restored = {"unsafe": str(error)}, None
        if restored is not None:
            self._restore_snapshot(restored)
        else:
            self._host.send(protocol.SNAPSHOT_TAKEN, number, pack(answer))

    def _save(self, number: int, settings: Dict[str, Any]) -> None:
        self._output.rest()
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
            told = incoming.load(self._namespace, python, cell_sources.remember_again)
        except BaseException as error:
            # Whatever went wrong while variables were loaded, the kernel goes on with those that were.
            told = {"restored": [], "lost": [{"name": "*", "reason": cells.describe(error)["message"][:300]}]}
        self._repair()
        self._output.flush()
        self._host.send(protocol.LOADED, number, pack(told))

    def _restore_snapshot(self, restored: snapshot.RestoredSnapshot) -> None:
        """In a snapshot: this process is the kernel from here on, in the state that was kept."""
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
        self._say_hello()

    @whole
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
            # A child that the cell forked, and that came to the cell's end: this kernel is not its own.
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
        """Show values in the middle of a cell, as rich as they can be shown."""
        for value in values:
            text, _ = short_repr(value)
            bundle, left_out = display.bundle(value)
            self.publish({**bundle, "text/plain": text}, left_out)

    def publish(self, bundle: Dict[str, Any], left_out: int = 0) -> None:
        if os.getpid() != self._pid:
            return  # a child that the code forked: it has no host to show anything to
        size = len(pack(bundle))
        if size > LARGEST_VALUE_BYTES:
            raise ValueError("a display of %d bytes is too large: %d are allowed" % (size, LARGEST_VALUE_BYTES))
        with self._interrupts, self._ordering:
            owner = execution_context.execution.get() or self._executing
            if owner == self._executing:
                markers = self._output.sync(always=True)
            else:
                # By a thread or a task whose cell is over: it need not wait for the output of the one that runs.
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

    @whole
    def _answer(self, number: int, request: Dict[str, Any]) -> None:
        try:
            self._interrupts.begin(number)
            try:
                value = introspection.answer(self._namespace, request["method"], request["params"])
            finally:
                self._interrupts.end()
            answer = pack({"value": value})
            if len(answer) > LARGEST_ANSWER_BYTES:
                raise ValueError("the answer is too large: it has %d bytes" % len(answer))
        except BaseException as error:
            self._interrupts.end()
            answer = pack({"error": cells.describe(error)})
        self._interrupts.finish(number)
        self._repair()
        self._host.send(protocol.ANSWER, number, answer)

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
        execution_context.forget()
        self._output.after_fork()
        os.close(self._host.fd)


the_kernel: Optional[Kernel] = None


def preload(names: Sequence[str]) -> List[Dict[str, str]]:
    """Imports modules that every kernel finds ready. Gives those that could not be, with the reason."""
    failed = []
    for name in names:
        try:
            __import__(name)
        except Exception as error:  # any module may fail in any way; the host is told which did
            failed.append({"name": name, "reason": "%s: %s" % (type(error).__name__, error)})
    return failed


def build() -> None:
    """In the template: makes the kernel that every process forked from it may become."""
    global the_kernel
    # Every save and load uses it; importing it takes as long as all the rest of a save.
    preload(["cloudpickle"])
    # Imports have left names in the interpreter's lookup cache: replacing each would cost every kernel a private page.
    if hasattr(sys, "_clear_type_cache"):
        sys._clear_type_cache()
    the_kernel = Kernel()
    the_kernel.install()
    the_kernel.warm_up()


def _reseed() -> None:
    """Kernels come from one template: what is random must differ all the same."""
    random = sys.modules.get("random")
    if random is not None:
        random.seed()
    numpy = sys.modules.get("numpy")
    if numpy is not None and "numpy.random" in sys.modules:
        # By an array: seeding without one takes a hundred times as long.
        numpy.random.seed(numpy.frombuffer(os.urandom(64), dtype="u4"))


def _send_nowhere(_kind: int, _number: int, _payload: bytes) -> None:
    pass


def _fix_main_thread_id() -> None:
    """After a fork without Python's hooks: the main thread has another number."""
    main_thread = getattr(sys.modules.get("threading"), "_main_thread", None)
    if main_thread is not None and hasattr(main_thread, "_set_native_id"):
        main_thread._set_native_id()
