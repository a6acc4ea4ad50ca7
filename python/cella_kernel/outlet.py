"""The way to the host's proxy, where the policy names hosts: a port on loopback, held by pid 1 from the beginning.

So nobody else can have it. Pid 1 reads nothing from it: the first connection has it start the forwarder, which is closed
in like any other process and may do no more than they; where that has ended, the next connection starts another.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from collections import deque
from typing import Any, Deque, Dict, Optional

from .forwarder import Forwarder
from .processes import close_others
from .sandbox import linux
from .sandbox.launch import Confinement
from .sandbox.linux import LayerError

_BACKLOG = 128
# Where so many were started in so short a time, each would end again: whoever waits is sent away instead.
_MOST_STARTS, _STARTS_S = 8, 1.0
_NOT_PROXIED = "localhost,127.0.0.1,::1"


class Outlet:
    """Call `answer` when somebody has connected, and `watch` when what that has started is gone."""

    def __init__(self, proxy: Dict[str, Any], poll: "select.poll") -> None:
        self._socket_path: str = proxy["socket"]
        self._poll = poll
        self._starts: Deque[float] = deque(maxlen=_MOST_STARTS)
        self._watched = False
        self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            self._listener.bind(("127.0.0.1", proxy["port"]))
            self._listener.listen(_BACKLOG)
        except OSError as error:
            raise LayerError("namespaces", "the port of the proxy: %s" % error) from error
        self._listener.setblocking(False)
        self.watch()
        # Whatever is started in here finds it the way programs do.
        url = "http://127.0.0.1:%d" % proxy["port"]
        for name, value in (("http", url), ("https", url), ("all", url), ("no", _NOT_PROXIED)):
            os.environ[name + "_proxy"] = os.environ[name.upper() + "_PROXY"] = value

    @property
    def fd(self) -> int:
        return self._listener.fileno()

    def watch(self) -> None:
        """Nobody takes its connections: the next one is for pid 1 to see."""
        if not self._watched:
            self._poll.register(self.fd, select.POLLIN)
        self._watched = True

    def answer(self, confinement: Optional[Confinement], spec: Dict[str, Any]) -> Optional[int]:
        """Somebody has connected: starts the process and gives its pid, unless that cannot be."""
        try:
            now = time.monotonic()
            if len(self._starts) == _MOST_STARTS and now - self._starts[0] < _STARTS_S:
                self._send_away()
                return None
            self._starts.append(now)
            pid = linux.fork() if linux.supported() else os.fork()
        except (LayerError, OSError):
            # There is no room for a process: nor for one to wait.
            self._send_away()
            return None
        if pid == 0:
            self._become(confinement, spec)
        self._poll.unregister(self.fd)
        self._watched = False
        return pid

    def _send_away(self) -> None:
        try:
            self._listener.accept()[0].close()
        except OSError:
            pass  # it has left by itself

    def _become(self, confinement: Optional[Confinement], spec: Dict[str, Any]) -> None:
        """Never returns."""
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.setsid()
            close_others([self.fd, *(confinement.descriptors() if confinement else ())])
            if linux.supported():
                linux.die_with_parent()
            if confinement is not None:
                confinement.enter(spec)
            Forwarder(self._listener, self._socket_path).serve()
        finally:
            os._exit(0)
