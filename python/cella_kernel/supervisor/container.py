"""Pid 1 of a container: builds the kernel that all kernels are forked from, confines itself further, and supervises them.

The engine has set up its user, file tree, network and limits. Pid 1 reaches the host through a socket in a read-only
folder, and keeps a descriptor of that socket, so that the host can remove its name before any user code runs. Each
further connection begins with a one-time token that the host has just sent to pid 1.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
from typing import Any, Dict, List

from .. import frames, protocol
from ..frames import Channel, report_failure
from ..kernel import kernel
from ..processes import silence, widen
from ..sandbox import launch, linux, seccomp
from ..sandbox.cgroup import OwnGroup
from ..sandbox.linux import LayerError
from . import supervisor


def main(options: Dict[str, Any]) -> None:
    """`options`: `folder` with the host's socket, `preload`: modules. Never returns. Connects when the kernel is ready."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    failed = kernel.preload(options["preload"])
    kernel.build()
    # Excludes all present objects from garbage collection. Collecting first would only delay the first session.
    gc.freeze()
    gc.enable()
    host = HostSocket(options["folder"])
    channel = Channel(host.enter())
    try:
        silence()
        spec = _opening(channel)["policy"]
        if failed:
            raise LayerError("preload", "%(name)s could not be imported: %(reason)s" % failed[0])
        # Some rootless engines give the container no limits. Then each process is limited by itself, as in a sandbox.
        group = OwnGroup.limiting(spec["limits"]["memoryBytes"])
        _confine(spec, group is None)
        pid_one = supervisor.Supervisor(channel, group, alone=True, connect=host.open)
        pid_one.settle(spec, launch.Confinement(None, killed_first=True))
        channel.send(protocol.OPENED, 0, json.dumps({"pid": os.getpid()}).encode())
        pid_one.serve()
    except BaseException as error:
        report_failure(channel, error)
    finally:
        os._exit(protocol.EXIT_SUPERVISOR_FAILED)


def _opening(channel: Channel) -> Dict[str, Any]:
    """The first frame from the host. If the host closes the connection instead, this process exits."""
    frame = channel.take()
    while frame is None:
        if not channel.fill():
            os._exit(0)
        frame = channel.take()
    if frame[0] != protocol.OPEN:
        raise LayerError("template", "a connection must begin with OPEN")
    return dict(json.loads(frame[2]))


def _confine(spec: Dict[str, Any], alone: bool) -> None:
    if os.getuid() != spec["uid"] or os.getgid() != spec["gid"]:
        raise LayerError("uid", "the container runs as %d:%d" % (os.getuid(), os.getgid()))
    for folder in spec["folders"]:
        facts = os.stat(folder["path"])
        if (str(facts.st_dev), str(facts.st_ino)) != (folder["id"]["device"], folder["id"]["inode"]):
            raise LayerError("replaced", "%s is not the folder that the session was created with" % folder["path"])
    linux.drop_bounding_set()
    linux.drop_capabilities()
    launch.settle(spec["limits"], alone, seccomp.program())


class HostSocket:
    """The socket in the read-only folder that the host listens on, and the pipes that it puts there."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._socket = os.open(os.path.join(folder, "host"), os.O_PATH | os.O_CLOEXEC)

    def enter(self) -> int:
        """Opens pid 1's own connection. Its token is in a file that the host removes after it has received the token."""
        with open(os.path.join(self._folder, "token"), "rb") as file:
            return self._connect(file.read())

    def open(self, request: Dict[str, Any]) -> List[int]:
        """Opens for a kernel or program: its connection, the writing ends of its two pipes, then their reading ends."""
        paths = [os.path.join(self._folder, name) for name in (request["out"], request["err"])]
        opened: List[int] = []
        try:
            # The host has opened its ends, so neither open waits.
            for flags in (os.O_WRONLY, os.O_RDONLY | os.O_NONBLOCK):
                opened += [os.open(path, flags | os.O_CLOEXEC) for path in paths]
            for fd in opened[:2]:
                widen(fd)
            return [self._connect(bytes.fromhex(request["token"])), *opened]
        except OSError:
            for fd in opened:
                os.close(fd)
            raise

    def _connect(self, token: bytes) -> int:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect("/proc/self/fd/%d" % self._socket)
            connection.sendall(frames.HEADER.pack(len(token), protocol.JOIN, 0) + token)
        except OSError:
            connection.close()
            raise
        return connection.detach()
