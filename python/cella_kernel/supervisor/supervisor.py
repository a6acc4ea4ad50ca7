"""Pid 1 of a sandbox or a container. It has a kernel ready to fork, and never runs user code.

It sets up the sandbox (unless an engine has done that), forks kernels, keeps their snapshots, signals them, reaps
processes, and reports each exit to the host. When the host closes its connection, pid 1 ends, and with it all processes
of its pid namespace.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
from typing import Any, Callable, Dict, List, Optional, Union

from .. import fd_passing, protocol
from ..frames import Channel, RejectedConnections, report_failure
from ..processes import child_signal_pipe, close_others, fork, silence
from ..sandbox import linux
from ..sandbox.cgroup import Group, OwnGroup
from ..sandbox.launch import Confinement, Launcher, SandboxResources
from ..sandbox.linux import LayerError
from . import children
from .children import become_program
from .process_table import ProcessTable
from .proxy_port import ProxyPort

# Longer than any valid message: a message that is cut at this length is not valid.
_LONGEST_MESSAGE = 4096
# How many registrations pid 1 handles in a row, so that code that floods the socket cannot block it.
_MOST_MESSAGES = 512
# Opens a connection that the host has requested: its descriptor, the writing ends of its two pipes, their reading ends.
Connect = Callable[[Dict[str, Any]], List[int]]


class Supervisor:
    """Gets connections for kernels from `template`, a socket with descriptors, or opens them with `connect`.

    `alone`: whether this is pid 1 of a pid namespace.
    """

    def __init__(
        self,
        channel: Channel,
        group: Union[Group, OwnGroup, None],
        alone: bool,
        template: Optional[socket.socket] = None,
        connect: Optional[Connect] = None,
        launcher: Optional[Launcher] = None,
    ) -> None:
        self._channel = channel
        self._template = template
        self._connect = connect
        self._launcher = launcher
        self._group = group
        self._poll = select.poll()
        self._waiting: List[fd_passing.Message] = []
        self._rejected = RejectedConnections(self._poll)
        self._spec: Optional[Dict[str, Any]] = None
        self._confinement: Optional[Confinement] = None
        # The port of the host's proxy, if the policy names hosts.
        self._proxy_port: Optional[ProxyPort] = None
        # Kernels register themselves and their snapshots here. The system reports the sender of each message.
        self._registration, self._their_registration = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        if hasattr(socket, "SO_PASSCRED"):
            self._registration.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._registration_poll = select.poll()
        self._registration_poll.register(self._registration.fileno(), select.POLLIN)
        self._processes = ProcessTable(channel, group, alone)

    def serve(self) -> None:
        reader = child_signal_pipe()
        template_fd = self._template.fileno() if self._template else -1
        for fd in (self._channel.fd, template_fd, self._registration.fileno(), reader):
            if fd >= 0:
                self._poll.register(fd, select.POLLIN)
        # Frames may have arrived together with OPEN.
        self._handle_frames()
        while True:
            pause = self._processes.pause_s
            ready = {fd for fd, _ in self._poll.poll(None if pause is None else pause * 1000)}
            if reader in ready:
                os.read(reader, 4096)
            if self._channel.fd in ready:
                self._from_host()
            if self._template is not None and template_fd in ready:
                self._from_template(self._template)
            for fd in ready & self._rejected.waiting:
                self._rejected.drain(fd)
            if self._proxy_port is not None and self._proxy_port.fd in ready and self._spec is not None:
                self._processes.forwarder = self._proxy_port.start_forwarder(self._confinement, self._spec)
            # Before reaping, as a process that has ended may have registered itself or a fork.
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
                # All requested connections are open, so no unused token is in the memory that a kernel inherits.
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
            # Without a connection for the kernel, reported on pid 1's own.
            died = {"code": protocol.EXIT_SUPERVISOR_FAILED, "outOfMemory": False}
            self._channel.send(protocol.DIED, body["kernel"], json.dumps(died).encode())

    def _from_template(self, template: socket.socket) -> None:
        try:
            kind, body, descriptors = fd_passing.receive(template)
        except EOFError:
            self._end()
            return
        self._from_kernels()
        try:
            if kind == fd_passing.KERNEL:
                self._waiting.append((kind, body, descriptors))
            elif kind == fd_passing.POLICY:
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
            self._launcher.apply_spec(spec, self._group, folders)
            confinement = self._launcher.confinement(spec)
            self._launcher.drop_privileges(spec)
            self.settle(spec, confinement)
        else:
            self.settle(spec, None)

    def settle(self, spec: Dict[str, Any], confinement: Optional[Confinement]) -> None:
        """The sandbox is complete: kernels can be started, each with this confinement."""
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
        """Starts a kernel or a program, or restores a snapshot, with the descriptors of its connection."""
        try:
            if body.get("command"):
                self._fork_program(body["kernel"], body["command"], descriptors)
            elif body["snapshot"] is None:
                self._fork_kernel(body["kernel"], body["spare"], descriptors)
            else:
                self._processes.restore_snapshot(body["snapshot"], body["kernel"], body["keep"], descriptors)
        except (LayerError, OSError) as error:
            # Reported to this connection only: other kernels continue.
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
        """Handles registrations that have arrived. Call it before requests of the host, which may depend on them."""
        for _ in range(_MOST_MESSAGES):
            # Polled first, as an exception each time would cost every sandbox private memory.
            if not self._registration_poll.poll(0):
                return
            try:
                received = fd_passing.receive_registration(self._registration, _LONGEST_MESSAGE)
            except OSError:
                return
            self._from_kernel(*received)

    def _from_kernel(self, data: bytes, descriptors: List[int], sender: int) -> None:
        """User code can send any message, but register only processes of its own sandbox."""
        try:
            message = fd_passing.parse_registration(data)
            if sender and message is not None:
                self._processes.registered(sender, message, descriptors)
        except Exception:
            pass  # the message may come from user code: it must not end the sandbox
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


def main(host: Optional[Channel], template: socket.socket, launcher: Optional[Launcher], resources: SandboxResources) -> None:
    """Never returns. Runs in a new fork of the template. Without `host`, the sandbox is prepared ahead of a session."""
    channel = host
    try:
        signal.set_wakeup_fd(-1)
        silence()
        close_others({*([host.fd] if host else ()), template.fileno(), *resources.descriptors()})
        if launcher is None:
            os.setsid()
            if linux.supported():
                linux.die_with_parent()
                linux.adopt_orphans()
        else:
            launcher.enter_sandbox(resources)
        if channel is None:
            channel = _wait_for_host(template)
        Supervisor(channel, resources.group, launcher is not None, template=template, launcher=launcher).serve()
    except BaseException as error:
        if channel is not None:
            report_failure(channel, error)
    finally:
        os._exit(protocol.EXIT_SUPERVISOR_FAILED)


def _wait_for_host(template: socket.socket) -> Channel:
    """Waits until a session takes this sandbox. Exits when the template closes its end."""
    try:
        fd_passing.send_ready(template)
        _, _, descriptors = fd_passing.receive(template)
    except (EOFError, OSError):
        os._exit(0)
    return Channel(descriptors[0])
