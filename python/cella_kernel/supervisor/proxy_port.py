"""The port on loopback by which programs reach the host's proxy, if the policy names hosts.

Pid 1 opens the port before any code runs, so that nobody else can have it, and reads nothing from it. On a connection, it
starts the forwarder: a confined process that forwards connections to the proxy's Unix socket. If the forwarder has ended,
the next connection starts another. The forwarder reads from one side only if the other has room.
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
# If so many forwarders were started in so short a time, the next would end too: clients are disconnected instead.
_MOST_STARTS, _STARTS_S = 8, 1.0
_NOT_PROXIED = "localhost,127.0.0.1,::1"


class ProxyPort:
    """Call `start_forwarder` when a client has connected, and `watch` when the forwarder has ended."""

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
        """Watches for the next connection, as no forwarder accepts it."""
        if not self._watched:
            self._poll.register(self.fd, select.POLLIN)
        self._watched = True

    def start_forwarder(self, confinement: Optional[Confinement], spec: Dict[str, Any]) -> Optional[int]:
        """Returns the pid of the forwarder, or None if it cannot be started."""
        try:
            now = time.monotonic()
            if len(self._starts) == _MOST_STARTS and now - self._starts[0] < _STARTS_S:
                self._disconnect_client()
                return None
            self._starts.append(now)
            pid = fork()
        except (LayerError, OSError):
            # No other process can be started.
            self._disconnect_client()
            return None
        if pid == 0:
            self._become(confinement, spec)
        self._poll.unregister(self.fd)
        self._watched = False
        return pid

    def _disconnect_client(self) -> None:
        try:
            self._listener.accept()[0].close()
        except OSError:
            pass  # the client has disconnected

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
# The forwarder ends after this time without a connection.
_IDLE_S = 60.0


class _Side:
    """One of two joined connections, and the data that it must still send."""

    __slots__ = ("socket", "other", "pending", "reads", "ended")

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.socket = connection
        self.other: "_Side" = self
        self.pending = b""
        # Whether more data may come from it.
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
            return  # the client has disconnected
        host = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            host.connect(self._path)
        except OSError:
            # The proxy has ended, or accepts no more connections.
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
                raise OSError("the connection broke")
        except BlockingIOError:
            pass  # poll says when it is ready
        except OSError:
            self._drop(side)
            return
        if side.ended and side.other.ended:
            self._drop(side)
            return
        for each in (side, side.other):
            self._poll_side(each)

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

    def _poll_side(self, side: _Side) -> None:
        """Registers what to wait for on this side: input only if the other side has room. If nothing, unregisters it."""
        wanted = (select.POLLIN if side.reads and not side.other.pending else 0) | (select.POLLOUT if side.pending else 0)
        if wanted:
            self._poll.register(side.socket.fileno(), wanted)
        else:
            self._unregister(side.socket.fileno())

    def _unregister(self, fd: int) -> None:
        try:
            self._poll.unregister(fd)
        except KeyError:
            pass  # it was not registered

    def _drop(self, side: _Side) -> None:
        for each in (side, side.other):
            fd = each.socket.fileno()
            self._unregister(fd)
            self._sides.pop(fd, None)
            each.socket.close()
