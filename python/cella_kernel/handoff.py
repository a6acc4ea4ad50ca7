"""Messages with descriptors on a stream socket: one word, one JSON object, and what goes along with it.

The template hands pid 1 of a sandbox its policy and the connections of kernels this way; pid 1 hands connections on to
frozen forks of a kernel.
"""

from __future__ import annotations

import json
import socket
from typing import Any, Dict, List, Tuple

# The host's connection to a sandbox that was begun ahead; a kernel's connection; the policy with its folders; why there
# is none.
HOST, KERNEL, POLICY, FAILURE = b"H", b"K", b"P", b"E"
_MOST_DESCRIPTORS = 200
# What a sandbox that was begun ahead says to the template when nothing is left that could fail.
_READY = b"R"

Message = Tuple[bytes, Dict[str, Any], List[int]]


def send(way: socket.socket, word: bytes, body: Dict[str, Any], descriptors: List[int]) -> None:
    data = word + json.dumps(body).encode() + b"\n"
    # The descriptors go with the first byte; a signal may cut what follows.
    sent = socket.send_fds(way, [data], descriptors)
    if sent < len(data):
        way.sendall(data[sent:])


def say_ready(way: socket.socket) -> None:
    way.sendall(_READY)


def is_ready(way: socket.socket) -> bool:
    """Whether the other side has said so; False if it has ended, too."""
    try:
        return way.recv(1, socket.MSG_DONTWAIT) == _READY
    except OSError:
        return False


def receive(way: socket.socket) -> Message:
    """The next message; raises EOFError where the other side is gone."""
    word, descriptors, _, _ = socket.recv_fds(way, 1, _MOST_DESCRIPTORS)
    if not word:
        raise EOFError("the other side has ended")
    return word, json.loads(_line(way)), list(descriptors)


def _line(way: socket.socket) -> bytes:
    """The rest of a message, from a sender that is trusted to end it."""
    line = bytearray()
    while not line.endswith(b"\n"):
        # No further than the end of the line: what comes next may bring descriptors.
        ahead = way.recv(65536, socket.MSG_PEEK)
        if not ahead:
            raise EOFError("the other side has ended")
        end = ahead.find(b"\n") + 1
        line += way.recv(end or len(ahead))
    return bytes(line)
