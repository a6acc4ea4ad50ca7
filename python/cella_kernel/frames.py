"""Frames on a stream socket: `length u32, type u8, id u32, payload`, little endian. See docs/internals/kernel-protocol.md."""

from __future__ import annotations

import os
import select
from struct import Struct
from typing import Callable, Optional, Set, Tuple

HEADER = Struct("<IBI")
_pack, _unpack_from = HEADER.pack, HEADER.unpack_from
_SIZE = HEADER.size

# host -> template, the first frame of a connection
OPEN, ATTACH = ord("O"), ord("A")
# pid 1 of a container -> host, the first frame of a connection
JOIN = ord("j")
# host -> pid 1 of a sandbox (of a container: OPEN and ATTACH too)
INTERRUPT, KILL, DROP_SNAPSHOT, MEASURE = ord("I"), ord("K"), ord("D"), ord("M")
# template and pid 1 -> host
OPENED, ATTACHED, FAILED, DIED, SNAPSHOT_LOST, MEASURED = ord("o"), ord("a"), ord("f"), ord("d"), ord("g"), ord("m")
# host -> kernel
START, EXECUTE, REQUEST, REPLY, SNAPSHOT, SAVE, LOAD = ord("S"), ord("X"), ord("Q"), ord("Y"), ord("T"), ord("V"), ord("L")
# host -> our process over a terminal, or over a program with stdin
TYPED, RESIZE, ENDED = ord("B"), ord("Z"), ord("E")
# kernel -> host
HELLO, RESULT, DISPLAY, ANSWER, CALL, CANCEL = ord("h"), ord("r"), ord("p"), ord("q"), ord("c"), ord("x")
SNAPSHOT_TAKEN, PART, SAVED, LOADED = ord("t"), ord("v"), ord("w"), ord("l")

# The descriptors of a kernel: its connection, the writing and the reading ends of its output, the registration socket.
# High numbers, so that code that closes everything it can count to does not hit them, and always the same, so that a
# kernel can be built before they are there.
KERNEL_FDS = range(256, 262)
# How a kernel exits that cannot go on. Without memory it cannot report more than this.
EXIT_FAILED, EXIT_OUT_OF_MEMORY = 70, 72

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

    def hear(self, fd: int) -> None:
        """Discards what the host still sends, until it closes the connection."""
        try:
            if os.read(fd, 65536):
                return
        except OSError:
            pass  # a broken connection is closed, too
        self._poll.unregister(fd)
        self.waiting.discard(fd)
        os.close(fd)
