"""The template: a warm interpreter that never runs user code. Connecting to its socket starts a kernel.

It listens in a folder that only the host's user can enter, and accepts only the host's process: a sandbox may have
been given a folder that holds the socket. The first frame of a connection says what it is for. OPEN makes a sandbox,
or takes one that was begun ahead; its pid 1 then owns the connection. ATTACH hands the connection, with two new pipes
for output, to the pid 1 of a sandbox, which forks a kernel on it. The template ends when its standard input does.
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
from typing import Any, Dict, List, Optional

from .. import fd_passing, processes, protocol
from ..frames import Channel, RejectedConnections
from ..kernel import kernel
from ..sandbox import linux, mounts
from ..sandbox.launch import Launcher, Surroundings
from ..sandbox.linux import LayerError
from ..sandbox.networks import Networks
from . import supervisor

# How long to be idle before the next sandbox is begun ahead.
_QUIET_MS = 15
# How long a message to a pid 1 may block: all others wait meanwhile. It blocks only if that pid 1 was stopped.
_LONGEST_HANDOFF_SECONDS = 2


class Sandbox:
    """One sandbox: its pid 1, the socket to hand it descriptors, and its control group and network."""

    __slots__ = ("pid", "way", "around")

    def __init__(self, pid: int, way: socket.socket, around: Surroundings) -> None:
        self.pid = pid
        self.way = way
        self.around = around


class Template:
    def __init__(self, folder: str, launcher: Optional[Launcher]) -> None:
        self._folder = folder
        self._launcher = launcher
        self._host = os.getppid()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(os.path.join(folder, "template"))
        self._listener.listen(512)
        self._sandboxes: Dict[str, Sandbox] = {}
        # Begun ahead for the next session: all that is the same for every session is done.
        self._begun: Optional[Sandbox] = None
        self._begin_next = False
        self._waiting: Dict[int, Channel] = {}
        self._readers: Dict[str, List[int]] = {}
        self._heard = b""
        self._poll = select.poll()
        self._rejected = RejectedConnections(self._poll, supervisor.send_failure)

    def serve(self, life: int) -> None:
        reader = processes.child_signal_pipe()
        for fd in (life, self._listener.fileno(), reader):
            self._poll.register(fd, select.POLLIN)
        while True:
            ready = self._poll.poll(_QUIET_MS if self._begin_next else None)
            if not ready:
                self._begin_ahead()
            for fd, _ in ready:
                if fd == self._listener.fileno():
                    self._accept()
                elif fd in self._waiting:
                    self._read(self._waiting[fd])
                elif fd in self._rejected.waiting:
                    self._rejected.drain(fd)
                elif fd == reader:
                    os.read(reader, 4096)
                    self._reap()
                elif fd == life:
                    self._hear(life)

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return  # it was broken off, or there is no descriptor for it now: the sandboxes that live go on
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
            alive = False  # the host broke it off
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
        except Exception as error:  # no connection may end the sandboxes that run
            self._rejected.refuse(channel, error)
            return
        os.close(channel.fd)

    def _open(self, channel: Channel, request: Dict[str, Any]) -> None:
        policy = request["policy"]
        sandbox = self._take_begun(channel) if policy["network"] == "none" else None
        if sandbox is None:
            sandbox = self._start(channel, policy["network"])
        self._sandboxes[request["id"]] = sandbox
        channel.send(protocol.OPENED, 0, json.dumps({"pid": sandbox.pid}).encode())
        self._bring(sandbox, policy)
        self._begin_next = self._launcher is not None and self._begun is None

    def _start(self, host: Optional[Channel], network: str) -> Sandbox:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            if self._launcher is None:
                pid, around = os.fork(), Surroundings("host", None)
            else:
                pid, around = self._launcher.start(network)
        except (LayerError, OSError):
            ours.close()
            theirs.close()
            raise
        if pid == 0:
            supervisor.main(host, theirs, self._launcher, around)
        theirs.close()
        around.close()
        ours.settimeout(_LONGEST_HANDOFF_SECONDS)
        return Sandbox(pid, ours, around)

    def _begin_ahead(self) -> None:
        """While idle: does most of what the next session would wait for."""
        self._begin_next = False
        try:
            self._begun = self._start(None, "none")
        except (LayerError, OSError):
            pass  # the next OPEN fails with the reason

    def _take_begun(self, channel: Channel) -> Optional[Sandbox]:
        begun = self._begun
        # One that is not ready may still fail, and could not report why. Then a new one is made while the host listens.
        if begun is None or not fd_passing.is_ready(begun.way):
            return None
        self._begun = None
        try:
            _hand(begun, fd_passing.HOST, {}, [channel.fd])
            return begun
        except OSError:
            # It was just killed, and is about to be reaped.
            self._sandboxes["begun %d" % begun.pid] = begun
            return None

    def _bring(self, sandbox: Sandbox, policy: Dict[str, Any]) -> None:
        """Hands a sandbox its policy, with the folders that it names."""
        folders: List[int] = []
        try:
            try:
                # Without a sandbox the code sees the host's own folders.
                folders = mounts.open_folders(policy) if self._launcher is not None else []
                _hand(sandbox, fd_passing.POLICY, policy, folders)
            except LayerError as error:
                _hand(sandbox, fd_passing.FAILURE, supervisor.failure_fields(error), [])
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
            # The host opens the reading ends by these names, then says so on our standard input.
            self._readers[request["id"]] = readers
            # Before the connection is handed on: its new owner may send at once.
            channel.send(protocol.ATTACHED, 0, json.dumps({"out": paths[0], "err": paths[1]}).encode())
            _hand(sandbox, fd_passing.KERNEL, request, [channel.fd, *writers, *readers])
        except OSError as error:
            raise LayerError("template", "the sandbox %s has ended: %s" % (request["sandbox"], error)) from None
        finally:
            for fd in writers:
                os.close(fd)

    def _pipe(self, name: str, readers: List[int], writers: List[int]) -> str:
        """A pipe whose reading end the host can open by the path that is returned."""
        if self._launcher is None:
            # Systems without a sandbox may have no /proc to name a descriptor by.
            path = os.path.join(self._folder, name)
            os.mkfifo(path, 0o600)
            readers.append(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
            writers.append(os.open(path, os.O_WRONLY))
            return path
        reader, writer = os.pipe()
        readers.append(reader)
        writers.append(writer)
        # The kernel runs as another user, and may open /dev/stdout and /dev/stderr again.
        os.fchmod(writer, 0o666)
        processes.widen(writer)
        return "/proc/%d/fd/%d" % (os.getpid(), reader)

    def _hear(self, life: int) -> None:
        """Standard input: a line for each connection whose pipes the host has opened, or a sandbox to kill. Its end is ours."""
        data = os.read(life, 65536)
        if not data:
            self._end()
        self._heard += data
        *lines, self._heard = self._heard.split(b"\n")
        for line in lines:
            word, _, name = line.decode("ascii").rpartition(" ")
            if word == "kill":
                self._kill(name)
            else:
                self._close_readers(name)

    def _kill(self, name: str) -> None:
        """Works also if pid 1 was stopped. Its pid is not reused before it is reaped, which is done here."""
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
            if self._begun is not None and self._begun.pid == pid:
                begun, self._begun = self._begun, None
                self._forget(begun)

    def _forget(self, sandbox: Sandbox) -> None:
        sandbox.way.close()
        sandbox.around.remove()

    def _remove_networks(self) -> None:
        """The sockets of proxies, which end with the host."""
        for name in os.listdir(self._folder):
            if name.startswith("network-"):
                folder = os.path.join(self._folder, name)
                for entry in os.listdir(folder):
                    os.unlink(os.path.join(folder, entry))
                os.rmdir(folder)

    def _end(self) -> None:
        if self._begun is not None:
            self._sandboxes[""] = self._begun
        if self._launcher is None:
            # Children that the code started do not end with their parent: there is no namespace that takes them along.
            processes.end_descendants()
            self._sandboxes.clear()
        for sandbox in self._sandboxes.values():
            try:
                os.kill(sandbox.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # it has just ended by itself
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
            pass  # the host was faster
        os._exit(0)


def _hand(sandbox: Sandbox, word: bytes, body: Dict[str, Any], descriptors: List[int]) -> None:
    """Sends it to pid 1. One that was stopped and leaves no room is ended: half of a message may have gone out."""
    try:
        fd_passing.send(sandbox.way, word, body, descriptors)
    except socket.timeout:
        os.kill(sandbox.pid, signal.SIGKILL)
        raise


def _comes_from(connection: socket.socket, pid: int) -> bool:
    """Whether that process made the connection; True where the system does not tell."""
    option = getattr(socket, "SO_PEERCRED", None)
    return option is None or struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, option, 12))[0] == pid


def _remove(sandbox: Sandbox) -> bool:
    sandbox.around.remove()
    return False


def _raise_file_limit() -> None:
    """Raises the soft limit as far as it goes; kernels lower it for themselves. Too low a limit is told by its number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        soft = hard
    except (OSError, ValueError):
        pass  # a host without rlimits is told so when its layers are looked at
    if soft != resource.RLIM_INFINITY and soft < protocol.LEAST_OPEN_FILES:
        words = "the server may have %d files open, and a kernel needs %d. Start it with a limit of 1024 or more (ulimit -n 1024)"
        raise LayerError("rlimits", words % (soft, protocol.LEAST_OPEN_FILES))


def main(options: Dict[str, Any]) -> None:
    """`options`: folder, sandbox, cgroup, preload, packages. Prints one line of JSON when it listens, or why not."""
    answer = os.fdopen(os.dup(1), "w")
    life = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for fd in (0, 1):
        os.dup2(nothing, fd)
    os.set_inheritable(life, False)
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
    # Forked after the collection, which writes to every object: it shares the template's memory and has no copy of it.
    if launcher is not None:
        launcher.networks = Networks()
    answer.write(json.dumps({"ready": True, "notPreloaded": failed}) + "\n")
    answer.close()
    template.serve(life)
