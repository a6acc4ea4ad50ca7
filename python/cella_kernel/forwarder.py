"""Passes the connections of a port on loopback on to a Unix socket, until none comes for a while.

Nothing is read that the other side has no room for.
"""

from __future__ import annotations

import select
import socket
from typing import Dict

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
        # Whether it was told that nothing more comes.
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
