"""Networks made ahead: making one takes longer than anything else in the start of a sandbox.

A process of its own makes them, one after the other, and hands each over as a descriptor. Each holds nothing but its
own loopback, and no process has ever been in it but the one that made it.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from typing import Optional

from . import linux
from .linux import NEWNET, LayerError

# How many wait to be taken.
_STOCK = 4


class Networks:
    """Call once, before there are threads. Where it cannot go on, `take` has nothing, and the caller makes its own."""

    def __init__(self) -> None:
        self._way, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._way.setblocking(False)
        if linux.fork() == 0:
            try:
                self._way.close()
                _make(theirs)
            finally:
                os._exit(0)
        theirs.close()

    def take(self) -> Optional[int]:
        try:
            word, descriptors, _, _ = socket.recv_fds(self._way, 1, 1)
            if word:
                self._way.send(b"+")
        except OSError:
            return None  # none is ready
        return descriptors[0] if descriptors else None


def _make(way: socket.socket) -> None:
    linux.die_with_parent()
    made = 0
    while True:
        # Each one that was taken is replaced; the end of the way is ours.
        if made >= _STOCK and not way.recv(1):
            return
        linux.unshare(NEWNET)
        loopback_up()
        network = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        socket.send_fds(way, [b"n"], [network])
        os.close(network)
        made += 1


def loopback_up() -> None:
    request = struct.pack("16sh14x", b"lo", 0x1 | 0x40)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        try:
            fcntl.ioctl(handle, 0x8914, request)
        except OSError as error:
            raise LayerError("namespaces", "cannot bring up loopback: %s" % error) from error
