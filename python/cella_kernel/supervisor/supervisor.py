"""Pid 1 of a sandbox or a container. It has a kernel ready to fork, and never runs user code itself.

It sets up the sandbox (unless an engine has done that), forks kernels, keeps their snapshots, signals them, reaps
processes, and reports each exit to the host. When the host closes its connection, pid 1 ends, and everything in its pid
namespace with it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import time
from typing import Any, Callable, Dict, List, Optional, Union

from .. import fd_passing, protocol
from ..frames import Channel, RejectedConnections
from ..processes import child_signal_pipe, close_others, fork, silence
from ..sandbox import linux
from ..sandbox.cgroup import Group, OwnGroup
from ..sandbox.launch import Confinement, Launcher, Surroundings
from ..sandbox.linux import LayerError
from . import children
from .children import become_program
from .process_table import ProcessTable
from .proxy_port import ProxyPort

# How long pid 1 waits for the host to read why there is no sandbox.
_DRAIN_TIMEOUT_S = 2.0
# Enough to see that a message is not one of ours but user code's.
_LONGEST_MESSAGE = 4096
# More than the registration socket can hold: code that floods it does not keep pid 1 from its work.
_MOST_MESSAGES = 512
# Opens a connection that the host has asked for: its descriptor, the writing ends of its two pipes, their reading ends.
Connect = Callable[[Dict[str, Any]], List[int]]


class Supervisor:
    """Connections for kernels come on `way`, with descriptors, or are opened by `connect` when the host asks for it.

    `alone`: this is pid 1 of a pid namespace.
    """

    def __init__(
        self,
        channel: Channel,
        group: Union[Group, OwnGroup, None],
        alone: bool,
        way: Optional[socket.socket] = None,
        connect: Optional[Connect] = None,
        launcher: Optional[Launcher] = None,
    ) -> None:
        self._channel = channel
        self._handoff = way
        self._connect = connect
        self._launcher = launcher
        self._group = group
        self._poll = select.poll()
        self._waiting: List[fd_passing.Message] = []
        self._rejected = RejectedConnections(self._poll, send_failure)
        self._spec: Optional[Dict[str, Any]] = None
        self._confinement: Optional[Confinement] = None
        # If the policy names hosts: the way to the host's proxy.
        self._proxy_port: Optional[ProxyPort] = None
        # Kernels register themselves and their snapshots here; the system says which process a message is from.
        self._registration, self._their_registration = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if hasattr(socket, "SO_PASSCRED"):
            self._registration.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._registration_poll = select.poll()
        self._registration_poll.register(self._registration.fileno(), select.POLLIN)
        self._processes = ProcessTable(channel, group, alone)

    def serve(self) -> None:
        reader = child_signal_pipe()
        handoff_fd = self._handoff.fileno() if self._handoff else -1
        for fd in (self._channel.fd, handoff_fd, self._registration.fileno(), reader):
            if fd >= 0:
                self._poll.register(fd, select.POLLIN)
        # Something may have come in one piece with OPEN.
        self._handle_frames()
        while True:
            pause = self._processes.pause_s
            ready = {fd for fd, _ in self._poll.poll(None if pause is None else pause * 1000)}
            if reader in ready:
                os.read(reader, 4096)
            if self._channel.fd in ready:
                self._from_host()
            if self._handoff is not None and handoff_fd in ready:
                self._from_template(self._handoff)
            for fd in ready & self._rejected.waiting:
                self._rejected.drain(fd)
            if self._proxy_port is not None and self._proxy_port.fd in ready and self._spec is not None:
                self._processes.forwarder = self._proxy_port.answer(self._confinement, self._spec)
            # A process that has ended may have registered itself, or a fork, just before.
            self._from_kernels()
            self._processes.reap()
            if self._proxy_port is not None and self._processes.forwarder is None:
                self._proxy_port.watch()
            self._processes.check()

    def _from_host(self) -> None:
        if not self._channel.fill():
            self._end()
        self._from_kernels()
        self._handle_frames()

    def _handle_frames(self) -> None:
        while True:
            frame = self._channel.take()
            if frame is None:
                # All requested connections are open by now: a kernel finds no unused token in its memory.
                self._start_all()
                return
            kind, number, payload = frame
            if kind == protocol.INTERRUPT:
                self._processes.interrupt(number, json.loads(payload)["execution"])
            elif kind == protocol.KILL:
                self._processes.kill(number, bool(payload) and json.loads(payload)["gently"])
            elif kind == protocol.DROP_SNAPSHOT:
                self._processes.drop_snapshot(number)
            elif kind == protocol.MEASURE:
                measured = json.dumps(self._processes.measure()).encode()
                self._channel.send(protocol.MEASURED, number, measured)
            elif kind == protocol.ATTACH and self._connect is not None:
                self._attach(json.loads(payload), self._connect)

    def _attach(self, body: Dict[str, Any], connect: Connect) -> None:
        try:
            self._waiting.append((fd_passing.KERNEL, body, connect(body)))
        except OSError:
            # There is no connection on which to report why.
            died = {"code": protocol.EXIT_SUPERVISOR_FAILED, "outOfMemory": False}
            self._channel.send(protocol.DIED, body["kernel"], json.dumps(died).encode())

    def _from_template(self, way: socket.socket) -> None:
        try:
            word, body, descriptors = fd_passing.receive(way)
        except EOFError:
            self._end()
            return
        self._from_kernels()
        try:
            if word == fd_passing.KERNEL:
                self._waiting.append((word, body, descriptors))
            elif word == fd_passing.POLICY:
                self._confine(body, descriptors)
            else:
                raise LayerError(body["layer"], body["message"])
            self._start_all()
        except LayerError as error:
            self._fail(error)
        except OSError as error:
            self._fail(LayerError("workspace", str(error)))

    def _confine(self, spec: Dict[str, Any], folders: List[int]) -> None:
        if self._launcher is not None:
            assert not isinstance(self._group, OwnGroup)
            self._launcher.bring_in(spec, self._group, folders)
            confinement = self._launcher.confinement(spec)
            self._launcher.retire(spec)
            self.settle(spec, confinement)
        else:
            self.settle(spec, None)

    def settle(self, spec: Dict[str, Any], confinement: Optional[Confinement]) -> None:
        """The sandbox is complete: kernels may be started from now on, each in that confinement."""
        self._processes.limit_cpu(spec["limits"]["cpuSeconds"])
        if spec["limits"].get("memoryCounts") == "used":
            self._processes.watch_memory(spec["limits"]["memoryBytes"])
        self._confinement = confinement
        if spec.get("proxy"):
            self._proxy_port = ProxyPort(spec["proxy"], self._poll)
        self._spec = spec

    def _start_all(self) -> None:
        while self._spec is not None and self._waiting:
            self._start(*self._waiting.pop(0)[1:])

    def _start(self, body: Dict[str, Any], descriptors: List[int]) -> None:
        """A connection for a new kernel, a program, or a kernel that a snapshot becomes."""
        try:
            if body.get("command"):
                self._fork_program(body["kernel"], body["command"], descriptors)
            elif body["snapshot"] is None:
                self._fork_kernel(body["kernel"], body["spare"], descriptors)
            else:
                self._processes.restore_snapshot(body["snapshot"], body["kernel"], body["keep"], descriptors)
        except (LayerError, OSError) as error:
            # Only this kernel could not be started; the others go on.
            self._rejected.refuse(Channel(descriptors.pop(0)), error)
        for fd in descriptors:
            os.close(fd)

    def _fork_kernel(self, number: int, spare: bool, descriptors: List[int]) -> None:
        slot = self._processes.new_interrupt_slot()
        pid = fork()
        if pid == 0:
            assert self._spec is not None
            children.become_kernel(descriptors, self._their_registration.fileno(), slot, self._confinement, self._spec, spare)
        self._processes.add_kernel(number, pid, slot)

    def _fork_program(self, number: int, command: Dict[str, Any], descriptors: List[int]) -> None:
        pid = fork()
        if pid == 0:
            assert self._spec is not None
            become_program(descriptors, self._confinement, self._spec, command)
        self._processes.add_program(number, pid)

    def _from_kernels(self) -> None:
        """Handles all registrations that have come: requests of the host may depend on them, and are handled after them."""
        for _ in range(_MOST_MESSAGES):
            # Polled first: raising an exception each time would cost every sandbox private memory.
            if not self._registration_poll.poll(0):
                return
            try:
                word = fd_passing.receive_registration(self._registration, _LONGEST_MESSAGE)
            except OSError:
                return
            self._from_kernel(*word)

    def _from_kernel(self, data: bytes, descriptors: List[int], sender: int) -> None:
        """Any message may come from user code. It can register processes of its own sandbox, and no others."""
        try:
            word = fd_passing.parse_registration(data)
            if sender and word is not None:
                self._processes.registered(sender, word, descriptors)
        except Exception:
            pass  # no message from user code ends the sandbox, and none is answered
        finally:
            for fd in descriptors:
                os.close(fd)

    def _fail(self, error: Exception) -> None:
        self._processes.kill_all()
        report_failure(self._channel, error)
        self._end()

    def _end(self) -> None:
        self._processes.end_all()
        os._exit(0)


def failure_fields(error: BaseException) -> Dict[str, str]:
    if isinstance(error, LayerError):
        return {"layer": error.layer, "message": error.message}
    return {"layer": "template", "message": "%s: %s" % (type(error).__name__, error)}


def send_failure(channel: Channel, error: BaseException) -> None:
    channel.send(protocol.FAILED, 0, json.dumps(failure_fields(error)).encode())


def report_failure(channel: Channel, error: BaseException) -> None:
    """The host closes the connection, not we: if it wrote to a closed one, it would miss the reason."""
    send_failure(channel, error)
    deadline = time.monotonic() + _DRAIN_TIMEOUT_S
    poll = select.poll()
    poll.register(channel.fd, select.POLLIN)
    while poll.poll(max(0.0, deadline - time.monotonic()) * 1000) and os.read(channel.fd, 65536):
        pass  # requests for a sandbox that could not be made


def main(host: Optional[Channel], way: socket.socket, launcher: Optional[Launcher], around: Surroundings) -> None:
    """Never returns. Runs in the process that the template has just made. Without `host`, it was begun ahead."""
    channel = host
    try:
        signal.set_wakeup_fd(-1)
        silence()
        close_others({*([host.fd] if host else ()), way.fileno(), *around.descriptors()})
        if launcher is None:
            os.setsid()
            if linux.supported():
                linux.die_with_parent()
                linux.adopt_orphans()
        else:
            launcher.begin(around)
        if channel is None:
            channel = _wait_for_host(way)
        Supervisor(channel, around.group, launcher is not None, way=way, launcher=launcher).serve()
    except BaseException as error:
        if channel is not None:
            report_failure(channel, error)
    finally:
        os._exit(protocol.EXIT_SUPERVISOR_FAILED)


def _wait_for_host(way: socket.socket) -> Channel:
    """Waits until a session takes this sandbox. If none ever does, the template closes its end."""
    try:
        fd_passing.say_ready(way)
        _, _, descriptors = fd_passing.receive(way)
    except (EOFError, OSError):
        os._exit(0)
    return Channel(descriptors[0])
