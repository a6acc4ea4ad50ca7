"""The template: a warm interpreter that never runs user code, and from which sandboxes and kernels are forked.

It listens in a folder that only the host's user can enter, and accepts only the host's process, as a sandbox may have
been given the folder with the socket. The first frame of a connection says what it is for. OPEN creates a sandbox, or
takes one that was prepared ahead; its pid 1 then owns the connection. ATTACH passes the connection, with two new pipes for
output, to the pid 1 of a sandbox, which forks a kernel for it. The template ends when its standard input does.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import select
import signal
import socket
import struct
import time
from typing import Any, Dict, List, Optional

from .. import fd_passing, processes, protocol
from ..frames import Channel, RejectedConnections, failure_fields
from ..kernel import kernel
from ..sandbox import linux, mounts
from ..sandbox.launch import Launcher, SandboxResources
from ..sandbox.linux import LayerError
from ..sandbox.networks import Networks
from . import supervisor

# How long the template is idle before it prepares the next sandbox.
_QUIET_MS = 15
# How long a message to a pid 1 may block, while all others wait. It blocks only if that pid 1 is stopped.
_SEND_TIMEOUT_S = 2
# How long the folders that a session names may take to be opened.
_FOLDERS_TIMEOUT_S = 5


class Sandbox:
    """One sandbox: its pid 1, the socket that passes descriptors to it, and its control group and network."""

    __slots__ = ("pid", "connection", "resources")

    def __init__(self, pid: int, connection: socket.socket, resources: SandboxResources) -> None:
        self.pid = pid
        self.connection = connection
        self.resources = resources


class OpeningFolders:
    """The folders of a policy, while a child opens them: a disk or network share that hangs holds up only that child."""

    __slots__ = ("sandbox", "policy", "connection", "deadline")

    def __init__(self, sandbox: Sandbox, policy: Dict[str, Any]) -> None:
        self.sandbox = sandbox
        self.policy = policy
        self.deadline = time.monotonic() + _FOLDERS_TIMEOUT_S
        self.connection, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            if processes.fork() == 0:
                _open_folders(theirs, policy)
        except LayerError:
            self.connection.close()
            raise
        finally:
            theirs.close()

    def receive(self) -> List[int]:
        kind, body, folders = fd_passing.receive(self.connection)
        if kind == fd_passing.FAILURE:
            raise LayerError(body["layer"], body["message"])
        return folders

    def late(self) -> LayerError:
        paths = ", ".join(folder["path"] for folder in (*self.policy["readable"], *self.policy["writable"]) if _is_named(folder))
        return LayerError("folder", "%s has not answered for %d s" % (paths, _FOLDERS_TIMEOUT_S))


def _is_named(folder: Dict[str, Any]) -> bool:
    """Whether a session names this folder: then the host has recorded which one it is. The others are in the data folder."""
    return "id" in folder


def _open_folders(connection: socket.socket, policy: Dict[str, Any]) -> None:
    """In a fork of the template: opens the folders and sends them. Never returns."""
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # The template does not wait longer.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(_FOLDERS_TIMEOUT_S)
        processes.close_others([connection.fileno()])
        linux.die_with_parent()
        try:
            fd_passing.send(connection, fd_passing.POLICY, {}, mounts.open_folders(policy))
        except LayerError as error:
            fd_passing.send(connection, fd_passing.FAILURE, failure_fields(error), [])
    finally:
        os._exit(0)


class Template:
    def __init__(self, folder: str, launcher: Optional[Launcher]) -> None:
        self._folder = folder
        self._launcher = launcher
        self._precedence = launcher.groups.precedence if launcher is not None and launcher.groups is not None else None
        self._host = os.getppid()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(os.path.join(folder, "template"))
        self._listener.listen(512)
        self._sandboxes: Dict[str, Sandbox] = {}
        # Prepared for the next session: everything that is the same for all sessions is done.
        self._prepared: Optional[Sandbox] = None
        self._prepare_next = False
        self._opening: Dict[int, OpeningFolders] = {}
        self._waiting: Dict[int, Channel] = {}
        self._readers: Dict[str, List[int]] = {}
        self._partial_line = b""
        self._poll = select.poll()
        self._rejected = RejectedConnections(self._poll)

    def serve(self, commands: int) -> None:
        reader = processes.child_signal_pipe()
        for fd in (commands, self._listener.fileno(), reader):
            self._poll.register(fd, select.POLLIN)
        while True:
            ready = self._poll.poll(self._pause_ms())
            if not ready and self._prepare_next:
                self._prepare_ahead()
            for fd, _ in ready:
                if fd == self._listener.fileno():
                    self._accept()
                elif fd in self._waiting:
                    self._read(self._waiting[fd])
                elif fd in self._opening:
                    self._folders_opened(self._opening[fd])
                elif fd in self._rejected.waiting:
                    self._rejected.drain(fd)
                elif fd == reader:
                    os.read(reader, 4096)
                    self._reap()
                elif fd == commands:
                    self._read_commands(commands)
            for opening in list(self._opening.values()):
                if time.monotonic() > opening.deadline:
                    self._end_opening(opening, opening.late(), [])
            if self._precedence is not None:
                self._precedence.update()

    def _pause_ms(self) -> Optional[float]:
        if self._prepare_next:
            return _QUIET_MS
        pauses = [opening.deadline - time.monotonic() for opening in self._opening.values()]
        until_update = self._precedence.pause_s() if self._precedence is not None else None
        if until_update is not None:
            pauses.append(until_update)
        return max(0.0, min(pauses)) * 1000 + 1 if pauses else None

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return  # the connection broke, or no descriptor is free: running sandboxes continue
        if not _comes_from(connection, self._host):
            connection.close()
            return
        channel = Channel(connection.detach())
        self._waiting[channel.fd] = channel
        self._poll.register(channel.fd, select.POLLIN)

    def _read(self, channel: Channel) -> None:
        try:
            alive = channel.fill()
        except OSError:
            alive = False  # the host has closed it
        frame = channel.take()
        if frame is None and alive:
            return
        self._poll.unregister(channel.fd)
        del self._waiting[channel.fd]
        if frame is None:
            os.close(channel.fd)
            return
        kind, _, payload = frame
        try:
            request = json.loads(payload)
            if kind == protocol.OPEN:
                self._open(channel, request)
            elif kind == protocol.ATTACH:
                self._attach(channel, request)
            else:
                raise LayerError("template", "a connection must begin with OPEN or ATTACH")
        except Exception as error:  # no request may end the running sandboxes
            self._rejected.refuse(channel, error)
            return
        os.close(channel.fd)

    def _open(self, channel: Channel, request: Dict[str, Any]) -> None:
        policy = request["policy"]
        sandbox = self._take_prepared(channel) if policy["network"] == "none" else None
        if sandbox is None:
            sandbox = self._start(channel, policy["network"])
        self._sandboxes[request["id"]] = sandbox
        channel.send(protocol.OPENED, 0, json.dumps({"pid": sandbox.pid}).encode())
        self._send_policy(sandbox, policy)
        self._prepare_next = self._launcher is not None and self._prepared is None

    def _start(self, host: Optional[Channel], network: str) -> Sandbox:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            if self._launcher is None:
                pid, resources = os.fork(), SandboxResources("host", None)
            else:
                pid, resources = self._launcher.start(network)
        except (LayerError, OSError):
            ours.close()
            theirs.close()
            raise
        if pid == 0:
            supervisor.main(host, theirs, self._launcher, resources)
        theirs.close()
        resources.close()
        if self._precedence is not None and resources.group is not None:
            self._precedence.add(resources.group)
        ours.settimeout(_SEND_TIMEOUT_S)
        return Sandbox(pid, ours, resources)

    def _prepare_ahead(self) -> None:
        """While idle: does most of the work that the next session would wait for."""
        self._prepare_next = False
        try:
            self._prepared = self._start(None, "none")
        except (LayerError, OSError):
            pass  # the next OPEN fails with the reason

    def _take_prepared(self, channel: Channel) -> Optional[Sandbox]:
        prepared = self._prepared
        # One that is not ready could fail and not report why. A new one is created instead, which reports to the host.
        if prepared is None or not fd_passing.is_ready(prepared.connection):
            return None
        self._prepared = None
        try:
            _send(prepared, fd_passing.HOST, {}, [channel.fd])
            return prepared
        except OSError:
            # It was killed, and will be reaped.
            self._sandboxes["prepared %d" % prepared.pid] = prepared
            return None

    def _send_policy(self, sandbox: Sandbox, policy: Dict[str, Any]) -> None:
        """Sends a sandbox its policy, with the folders of the policy as descriptors. Without isolation, the code sees the
        host's folders.
        """
        try:
            if self._launcher is None:
                self._pass_policy(sandbox, policy, None, [])
            elif any(_is_named(folder) for folder in (*policy["readable"], *policy["writable"])):
                opening = OpeningFolders(sandbox, policy)
                self._opening[opening.connection.fileno()] = opening
                self._poll.register(opening.connection.fileno(), select.POLLIN)
            else:
                self._pass_policy(sandbox, policy, None, mounts.open_folders(policy))
        except LayerError as error:
            self._pass_policy(sandbox, policy, error, [])

    def _folders_opened(self, opening: OpeningFolders) -> None:
        try:
            self._end_opening(opening, None, opening.receive())
        except LayerError as error:
            self._end_opening(opening, error, [])
        except (EOFError, OSError):
            self._end_opening(opening, opening.late(), [])

    def _end_opening(self, opening: OpeningFolders, error: Optional[LayerError], folders: List[int]) -> None:
        fd = opening.connection.fileno()
        del self._opening[fd]
        self._poll.unregister(fd)
        opening.connection.close()
        self._pass_policy(opening.sandbox, opening.policy, error, folders)

    def _pass_policy(self, sandbox: Sandbox, policy: Dict[str, Any], error: Optional[LayerError], folders: List[int]) -> None:
        try:
            if error is None:
                _send(sandbox, fd_passing.POLICY, policy, folders)
            else:
                _send(sandbox, fd_passing.FAILURE, failure_fields(error), [])
        except OSError:
            pass  # the sandbox has ended; its own connection tells the host
        finally:
            for fd in folders:
                os.close(fd)

    def _attach(self, channel: Channel, request: Dict[str, Any]) -> None:
        sandbox = self._sandboxes.get(request["sandbox"])
        if sandbox is None:
            raise LayerError("template", "there is no sandbox %s" % request["sandbox"])
        readers: List[int] = []
        writers: List[int] = []
        try:
            paths = [self._pipe("%s.%s" % (request["id"], name), readers, writers) for name in ("out", "err")]
            # The host opens the reading ends by these paths, then says so on standard input.
            self._readers[request["id"]] = readers
            # Before the connection is passed on, as its new owner may send at once.
            channel.send(protocol.ATTACHED, 0, json.dumps({"out": paths[0], "err": paths[1]}).encode())
            _send(sandbox, fd_passing.KERNEL, request, [channel.fd, *writers, *readers])
        except OSError as error:
            raise LayerError("template", "the sandbox %s has ended: %s" % (request["sandbox"], error)) from None
        finally:
            for fd in writers:
                os.close(fd)

    def _pipe(self, name: str, readers: List[int], writers: List[int]) -> str:
        """Opens a pipe, and returns a path by which the host can open its reading end."""
        if self._launcher is None:
            # There may be no /proc, so the pipe has a name of its own.
            path = os.path.join(self._folder, name)
            os.mkfifo(path, 0o600)
            readers.append(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
            writers.append(os.open(path, os.O_WRONLY))
            return path
        reader, writer = os.pipe()
        readers.append(reader)
        writers.append(writer)
        # The code runs as another user, and may open /dev/stdout and /dev/stderr.
        os.fchmod(writer, 0o666)
        processes.widen(writer)
        return "/proc/%d/fd/%d" % (os.getpid(), reader)

    def _read_commands(self, commands: int) -> None:
        """Reads standard input. Each line names a connection whose pipes the host has opened, or a sandbox to kill."""
        data = os.read(commands, 65536)
        if not data:
            self._end()
        self._partial_line += data
        *lines, self._partial_line = self._partial_line.split(b"\n")
        for line in lines:
            kind, _, name = line.decode("ascii").rpartition(" ")
            if kind == "kill":
                self._kill(name)
            else:
                self._close_readers(name)

    def _kill(self, name: str) -> None:
        """Kills pid 1, even if it is stopped. Its pid cannot be reused before this process reaps it."""
        sandbox = self._sandboxes.get(name)
        if sandbox is not None:
            os.kill(sandbox.pid, signal.SIGKILL)

    def _close_readers(self, connection: str) -> None:
        for fd in self._readers.pop(connection, ()):
            os.close(fd)
        if self._launcher is None:
            for end in ("out", "err"):
                os.unlink(os.path.join(self._folder, "%s.%s" % (connection, end)))

    def _reap(self) -> None:
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for name, sandbox in list(self._sandboxes.items()):
                if sandbox.pid == pid:
                    self._forget(self._sandboxes.pop(name))
            if self._prepared is not None and self._prepared.pid == pid:
                prepared, self._prepared = self._prepared, None
                self._forget(prepared)

    def _forget(self, sandbox: Sandbox) -> None:
        sandbox.connection.close()
        if self._precedence is not None and sandbox.resources.group is not None:
            self._precedence.remove(sandbox.resources.group)
        sandbox.resources.remove()

    def _remove_networks(self) -> None:
        """Removes the sockets of proxies, which end with the host."""
        for name in os.listdir(self._folder):
            if name.startswith("network-"):
                folder = os.path.join(self._folder, name)
                for entry in os.listdir(folder):
                    os.unlink(os.path.join(folder, entry))
                os.rmdir(folder)

    def _end(self) -> None:
        if self._prepared is not None:
            self._sandboxes[""] = self._prepared
        if self._launcher is None:
            # Without a pid namespace, processes that the code has started do not end with pid 1.
            processes.end_descendants()
            self._sandboxes.clear()
        for sandbox in self._sandboxes.values():
            try:
                os.kill(sandbox.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it has ended
        while self._sandboxes:
            pid, _ = os.waitpid(-1, 0)
            self._sandboxes = {name: s for name, s in self._sandboxes.items() if s.pid != pid or _remove(s)}
        if self._launcher is not None:
            self._launcher.remove()
        try:
            os.unlink(os.path.join(self._folder, "template"))
            self._remove_networks()
            os.rmdir(self._folder)
        except OSError:
            pass  # the host has removed them
        os._exit(0)


def _send(sandbox: Sandbox, kind: bytes, body: Dict[str, Any], descriptors: List[int]) -> None:
    """Sends a message to pid 1. Kills pid 1 if it takes no message, as part of the message may have been sent."""
    try:
        fd_passing.send(sandbox.connection, kind, body, descriptors)
    except socket.timeout:
        os.kill(sandbox.pid, signal.SIGKILL)
        raise


def _comes_from(connection: socket.socket, pid: int) -> bool:
    """Whether this process made the connection. True if the system does not report it."""
    option = getattr(socket, "SO_PEERCRED", None)
    return option is None or struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, option, 12))[0] == pid


def _remove(sandbox: Sandbox) -> bool:
    sandbox.resources.remove()
    return False


def _raise_file_limit() -> None:
    """Raises the soft limit on open files as far as possible; kernels lower it for themselves. Reports too low a limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    except (OSError, ValueError):
        pass  # `cella doctor` reports a host without rlimits
    if soft != resource.RLIM_INFINITY and soft < protocol.LEAST_OPEN_FILES:
        message = "the server may have %d files open, and a kernel needs %d. Start it with a limit of 1024 or more (ulimit -n 1024)"
        raise LayerError("rlimits", message % (soft, protocol.LEAST_OPEN_FILES))


def main(options: Dict[str, Any]) -> None:
    """`options`: folder, sandbox, cgroup, preload, packages. Prints a line of JSON when it listens, or the error."""
    answer = os.fdopen(os.dup(1), "w")
    commands = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for fd in (0, 1):
        os.dup2(nothing, fd)
    os.set_inheritable(commands, False)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        _raise_file_limit()
        failed = kernel.preload(options["preload"])
        launcher = None
        if options["sandbox"] == "on":
            stage = os.path.join(options["folder"], "stage")
            os.mkdir(stage)
            launcher = Launcher(stage, options["packages"], options["cgroup"] == "required")
        else:
            linux.adopt_orphans()
        template = Template(options["folder"], launcher)
    except LayerError as error:
        answer.write(json.dumps({"ready": False, "layer": error.layer, "message": error.message}) + "\n")
        answer.close()
        os._exit(1)
    kernel.build()
    gc.collect()
    gc.freeze()
    # Forked after the garbage collection, which writes to every object, so that the fork keeps sharing the memory.
    if launcher is not None:
        launcher.networks = Networks()
    answer.write(json.dumps({"ready": True, "notPreloaded": failed}) + "\n")
    answer.close()
    template.serve(commands)
