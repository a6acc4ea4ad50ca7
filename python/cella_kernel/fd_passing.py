"""Messages with descriptors between the template, pid 1 of a sandbox, kernels and their snapshots.

The template hands pid 1 its policy and the connections of kernels; pid 1 hands connections on to snapshots. On the
registration socket, kernels and snapshots tell pid 1 what they are.
"""

from __future__ import annotations

import array
import json
import os
import re
import socket
import struct
from typing import Any, Dict, List, Optional, Tuple

# The host's connection to a sandbox that was begun ahead; a kernel's connection; the policy with its folders; why there
# is none.
HOST, KERNEL, POLICY, FAILURE = b"H", b"K", b"P", b"E"
_MOST_DESCRIPTORS = 200
# Sent to the template by a sandbox that was begun ahead, when nothing is left that could fail.
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


_CREDENTIALS = struct.Struct("3i")
# The only messages there are. User code may write anything: nothing else is parsed.
_REGISTRATION = re.compile(rb'\{"(snapshot|kernel)": (0|[1-9][0-9]{0,9})\}')
_LARGEST_NUMBER = 0xFFFFFFFF


def parse_registration(data: bytes) -> Optional[Dict[str, int]]:
    """The message of a kernel or a snapshot; None if it is not one."""
    found = _REGISTRATION.fullmatch(data)
    if found is None or int(found[2]) > _LARGEST_NUMBER:
        return None
    return {found[1].decode("ascii"): int(found[2])}


def register(registration: int, message: Dict[str, int], descriptors: List[int]) -> None:
    """From a kernel or a snapshot to pid 1."""
    with socket.socket(fileno=os.dup(registration)) as way:
        socket.send_fds(way, [json.dumps(message).encode()], descriptors)


def receive_registration(registration: socket.socket, longest: int) -> Tuple[bytes, List[int], int]:
    """A message that has arrived, its descriptors, and the process that it is from.

    That is 0 where the system does not tell.
    """
    room = socket.CMSG_SPACE(16 * 4) + socket.CMSG_SPACE(_CREDENTIALS.size)
    data, ancillary, _, _ = registration.recvmsg(longest, room, getattr(socket, "MSG_CMSG_CLOEXEC", 0) | socket.MSG_DONTWAIT)
    descriptors = array.array("i")
    pid = 0
    for level, kind, content in ancillary:
        if level != socket.SOL_SOCKET:
            continue
        if kind == socket.SCM_RIGHTS:
            descriptors.frombytes(content[: len(content) - len(content) % descriptors.itemsize])
        elif kind == getattr(socket, "SCM_CREDENTIALS", None):
            pid = _CREDENTIALS.unpack(content[: _CREDENTIALS.size])[0]
    return data, list(descriptors), pid
