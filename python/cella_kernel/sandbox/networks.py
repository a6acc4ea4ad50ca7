"""Network namespaces created ahead, as creating one takes longer than any other step in the start of a sandbox.

A separate process creates them, and passes each as a descriptor. A network has only its own loopback, and no other
process has been in it.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from typing import Optional

from . import linux
from .linux import NEWNET, LayerError

# How many are created ahead.
_STOCK = 4


class Networks:
    """Create it before there are threads. If its process fails, `take` returns None and the caller creates a network."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.setblocking(False)
        if linux.fork() == 0:
            try:
                self._socket.close()
                _make(theirs)
            finally:
                os._exit(0)
        theirs.close()

    def take(self) -> Optional[int]:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._socket, 1, 1)
            if data:
                self._socket.send(b"+")
        except OSError:
            return None  # none is ready
        return descriptors[0] if descriptors else None


def _make(template: socket.socket) -> None:
    linux.die_with_parent()
    made = 0
    while True:
        # Replaces each network that is taken. Ends with the template.
        if made >= _STOCK and not template.recv(1):
            return
        linux.unshare(NEWNET)
        loopback_up()
        network = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        socket.send_fds(template, [b"n"], [network])
        os.close(network)
        made += 1


def loopback_up() -> None:
    request = struct.pack("16sh14x", b"lo", 0x1 | 0x40)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        try:
            fcntl.ioctl(handle, 0x8914, request)
        except OSError as error:
            raise LayerError("namespaces", "cannot bring up loopback: %s" % error) from error
