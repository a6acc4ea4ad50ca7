"""Frames on a stream socket: `length u32, type u8, id u32, payload`, little endian. See docs/internals/kernel-protocol.md."""

from __future__ import annotations

import os
import select
from struct import Struct
from typing import Callable, Optional, Set, Tuple

from .protocol import HEADER_BYTES

HEADER = Struct("<IBI")
_pack, _unpack_from = HEADER.pack, HEADER.unpack_from
_SIZE = HEADER_BYTES

Frame = Tuple[int, int, bytes]


class Channel:
    """One end of a frame stream over a blocking descriptor."""

    __slots__ = ("fd", "_buffer")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._buffer = b""

    def take(self) -> Optional[Frame]:
        """A whole frame that is already here, else None."""
        buffer = self._buffer
        if len(buffer) < _SIZE:
            return None
        length, kind, number = _unpack_from(buffer)
        end = _SIZE + length
        if len(buffer) < end:
            return None
        self._buffer = buffer[end:]
        return kind, number, buffer[_SIZE:end]

    def fill(self) -> bool:
        """Reads what is there, at least one byte; False at the end of the stream."""
        data = os.read(self.fd, 65536)
        if not data:
            return False
        buffer = self._buffer + data if self._buffer else data
        if len(buffer) >= _SIZE:
            missing = _SIZE + _unpack_from(buffer)[0] - len(buffer)
            if missing > 0:
                # A large frame is gathered in pieces, not by growing one string again and again.
                parts = [buffer]
                while missing > 0:
                    data = os.read(self.fd, min(missing, 1 << 20))
                    if not data:
                        return False
                    parts.append(data)
                    missing -= len(data)
                buffer = b"".join(parts)
        self._buffer = buffer
        return True

    def send(self, kind: int, number: int, payload: bytes = b"") -> None:
        length = len(payload)
        data = _pack(length, kind, number) + payload
        sent = os.write(self.fd, data)
        if sent < len(data):
            view = memoryview(data)
            while sent < len(data):
                sent += os.write(self.fd, view[sent:])


SendFailure = Callable[[Channel, BaseException], None]


class RejectedConnections:
    """The host closes the connection, not we: if it wrote to a closed one, it would miss the reason."""

    def __init__(self, poll: "select.poll", fail: SendFailure) -> None:
        self.waiting: Set[int] = set()
        self._poll = poll
        self._fail = fail

    def refuse(self, channel: Channel, error: BaseException) -> None:
        try:
            self._fail(channel, error)
        except OSError:
            os.close(channel.fd)  # the host has closed it already; all other connections go on
            return
        self.waiting.add(channel.fd)
        self._poll.register(channel.fd, select.POLLIN)

    def drain(self, fd: int) -> None:
        """Discards what the host still sends, until it closes the connection."""
        try:
            if os.read(fd, 65536):
                return
        except OSError:
            pass  # a broken connection is closed, too
        self._poll.unregister(fd)
        self.waiting.discard(fd)
        os.close(fd)
