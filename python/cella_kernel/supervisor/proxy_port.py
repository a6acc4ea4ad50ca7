"""The way to the host's proxy, if the policy names hosts: a port on loopback that pid 1 holds from the beginning.

So nobody else can have it. Pid 1 reads nothing from it: on the first connection it starts the forwarder, a process that
is confined like any other and passes connections on to the proxy's Unix socket. If that has ended, the next connection
starts another. Nothing is read that the other side has no room for.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from collections import deque
from typing import Any, Deque, Dict, Optional

from ..processes import fork
from ..sandbox.launch import Confinement
from ..sandbox.linux import LayerError
from .children import confine_child

_BACKLOG = 128
# If so many were started in so short a time, the next would end again: clients are disconnected instead.
_MOST_STARTS, _STARTS_S = 8, 1.0
_NOT_PROXIED = "localhost,127.0.0.1,::1"


class ProxyPort:
    """Call `answer` when a client has connected, and `watch` when the forwarder has ended."""

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
        # Programs find the proxy by these variables.
        url = "http://127.0.0.1:%d" % proxy["port"]
        for name, value in (("http", url), ("https", url), ("all", url), ("no", _NOT_PROXIED)):
            os.environ[name + "_proxy"] = os.environ[name.upper() + "_PROXY"] = value

    @property
    def fd(self) -> int:
        return self._listener.fileno()

    def watch(self) -> None:
        """No forwarder accepts connections: pid 1 watches for the next one."""
        if not self._watched:
            self._poll.register(self.fd, select.POLLIN)
        self._watched = True

    def answer(self, confinement: Optional[Confinement], spec: Dict[str, Any]) -> Optional[int]:
        """A client has connected: starts the forwarder and returns its pid, or None if it cannot be started."""
        try:
            now = time.monotonic()
            if len(self._starts) == _MOST_STARTS and now - self._starts[0] < _STARTS_S:
                self._send_away()
                return None
            self._starts.append(now)
            pid = fork()
        except (LayerError, OSError):
            # There is no room for another process.
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
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            confine_child([self.fd], confinement, spec)
            Forwarder(self._listener, self._socket_path).serve()
        finally:
            os._exit(0)


_MOST_CONNECTIONS = 128
_CHUNK = 1 << 16
# Without a connection for so long, it ends.
_IDLE_S = 60.0


class _Side:
    """One of two joined connections, and what it still has to take from the other."""

    __slots__ = ("socket", "other", "pending", "reads", "ended")

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.socket = connection
        self.other: "_Side" = self
        self.pending = b""
        # Whether more may come from it.
        self.reads = True
        # Whether its writing side was shut down.
        self.ended = False


class Forwarder:
    def __init__(self, listener: socket.socket, path: str) -> None:
        self._listener = listener
        self._path = path
        self._poll = select.poll()
        self._sides: Dict[int, _Side] = {}
        self._listening = False

    def serve(self) -> None:
        while True:
            self._listen()
            ready = self._poll.poll(None if self._sides else _IDLE_S * 1000)
            if not ready:
                return
            for fd, events in ready:
                if fd == self._listener.fileno():
                    self._accept()
                elif fd in self._sides:
                    self._move(self._sides[fd], events)

    def _listen(self) -> None:
        room = len(self._sides) < 2 * _MOST_CONNECTIONS
        if room and not self._listening:
            self._poll.register(self._listener.fileno(), select.POLLIN)
        elif not room and self._listening:
            self._poll.unregister(self._listener.fileno())
        self._listening = room

    def _accept(self) -> None:
        try:
            client = self._listener.accept()[0]
        except OSError:
            return  # it has left again
        host = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            host.connect(self._path)
        except OSError:
            # The proxy has ended, or has no room.
            client.close()
            host.close()
            return
        sides = (_Side(client), _Side(host))
        sides[0].other, sides[1].other = sides[1], sides[0]
        for side in sides:
            self._sides[side.socket.fileno()] = side
            self._poll.register(side.socket.fileno(), select.POLLIN)

    def _move(self, side: _Side, events: int) -> None:
        try:
            if events & select.POLLOUT:
                self._write(side)
            if events & (select.POLLIN | select.POLLHUP | select.POLLERR) and side.reads and not side.other.pending:
                self._read(side)
            elif events & select.POLLERR:
                raise OSError("broken off")
        except BlockingIOError:
            pass  # later
        except OSError:
            self._drop(side)
            return
        if side.ended and side.other.ended:
            self._drop(side)
            return
        for each in (side, side.other):
            self._ask(each)

    def _read(self, side: _Side) -> None:
        data = side.socket.recv(_CHUNK)
        if data:
            side.other.pending = data
        else:
            side.reads = False
        self._write(side.other)

    def _write(self, side: _Side) -> None:
        if side.pending:
            try:
                side.pending = side.pending[side.socket.send(side.pending) :]
            except BlockingIOError:
                return
        if not side.pending and not side.other.reads and not side.ended:
            side.ended = True
            side.socket.shutdown(socket.SHUT_WR)

    def _ask(self, side: _Side) -> None:
        """Nothing is read that the other side has no room for. One of which nothing is wanted is not asked about."""
        wanted = (select.POLLIN if side.reads and not side.other.pending else 0) | (select.POLLOUT if side.pending else 0)
        if wanted:
            self._poll.register(side.socket.fileno(), wanted)
        else:
            self._forget(side.socket.fileno())

    def _forget(self, fd: int) -> None:
        try:
            self._poll.unregister(fd)
        except KeyError:
            pass  # it was not asked about

    def _drop(self, side: _Side) -> None:
        for each in (side, side.other):
            fd = each.socket.fileno()
            self._forget(fd)
            self._sides.pop(fd, None)
            each.socket.close()
