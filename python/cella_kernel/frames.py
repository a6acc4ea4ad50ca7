"""Frames on a stream socket: `length u32, type u8, id u32, payload`, little endian. See docs/internals/kernel-protocol.md.

Also here: how the template and pid 1 report with a FAILED frame that a request failed.
"""

from __future__ import annotations

import json
import os
import select
import time
from struct import Struct
from typing import Dict, Optional, Set, Tuple

from .protocol import FAILED, HEADER_BYTES
from .sandbox.linux import LayerError

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
        """The next frame if all of it has been read, else None."""
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
        """Waits for at least one byte and reads what has arrived. Returns False at the end of the stream."""
        data = os.read(self.fd, 65536)
        if not data:
            return False
        buffer = self._buffer + data if self._buffer else data
        if len(buffer) >= _SIZE:
            missing = _SIZE + _unpack_from(buffer)[0] - len(buffer)
            if missing > 0:
                # Collected in a list: growing one bytes object would copy it for every piece.
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


# How long `report_failure` waits for the host to close the connection.
_DRAIN_TIMEOUT_S = 2.0


def failure_fields(error: BaseException) -> Dict[str, str]:
    if isinstance(error, LayerError):
        return {"layer": error.layer, "message": error.message}
    return {"layer": "template", "message": "%s: %s" % (type(error).__name__, error)}


def send_failure(channel: Channel, error: BaseException) -> None:
    channel.send(FAILED, 0, json.dumps(failure_fields(error)).encode())


def report_failure(channel: Channel, error: BaseException) -> None:
    """Sends the failure, and reads until the host closes: a host that writes to a closed connection misses the reason."""
    send_failure(channel, error)
    deadline = time.monotonic() + _DRAIN_TIMEOUT_S
    poll = select.poll()
    poll.register(channel.fd, select.POLLIN)
    while poll.poll(max(0.0, deadline - time.monotonic()) * 1000) and os.read(channel.fd, 65536):
        pass  # requests that were sent before the host saw the failure


class RejectedConnections:
    """Connections that were sent a failure. They stay open until the host closes them, as in `report_failure`."""

    def __init__(self, poll: "select.poll") -> None:
        self.waiting: Set[int] = set()
        self._poll = poll

    def refuse(self, channel: Channel, error: BaseException) -> None:
        try:
            send_failure(channel, error)
        except OSError:
            os.close(channel.fd)  # the host has closed it already
            return
        self.waiting.add(channel.fd)
        self._poll.register(channel.fd, select.POLLIN)

    def drain(self, fd: int) -> None:
        """Discards what the host still sends, until it closes the connection."""
        try:
            if os.read(fd, 65536):
                return
        except OSError:
            pass  # the connection broke: close it too
        self._poll.unregister(fd)
        self.waiting.discard(fd)
        os.close(fd)
