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

# Kinds of messages from the template to pid 1: the host's connection to a sandbox that was prepared ahead; a kernel's
# connection; the policy with its folders; the reason why there is no policy.
HOST, KERNEL, POLICY, FAILURE = b"H", b"K", b"P", b"E"
_MOST_DESCRIPTORS = 200
# A sandbox that was prepared ahead sends this to the template when nothing is left that could fail.
_READY = b"R"

Message = Tuple[bytes, Dict[str, Any], List[int]]


def send(connection: socket.socket, kind: bytes, body: Dict[str, Any], descriptors: List[int]) -> None:
    data = kind + json.dumps(body).encode() + b"\n"
    # The first byte carries the descriptors. A signal can interrupt the send after it.
    sent = socket.send_fds(connection, [data], descriptors)
    if sent < len(data):
        connection.sendall(data[sent:])


def send_ready(connection: socket.socket) -> None:
    connection.sendall(_READY)


def is_ready(connection: socket.socket) -> bool:
    """Whether the sandbox has called `send_ready`. False if it has ended."""
    try:
        return connection.recv(1, socket.MSG_DONTWAIT) == _READY
    except OSError:
        return False


def receive(connection: socket.socket) -> Message:
    """The kind, body and descriptors of the next message. Raises EOFError if the other side has ended."""
    kind, descriptors, _, _ = socket.recv_fds(connection, 1, _MOST_DESCRIPTORS)
    if not kind:
        raise EOFError("the other side has ended")
    return kind, json.loads(_read_line(connection)), list(descriptors)


def _read_line(connection: socket.socket) -> bytes:
    """The rest of a message. Waits for its end: the sender is trusted."""
    line = bytearray()
    while not line.endswith(b"\n"):
        # Reads no further than the end of the line, as the next message may carry descriptors.
        ahead = connection.recv(65536, socket.MSG_PEEK)
        if not ahead:
            raise EOFError("the other side has ended")
        end = ahead.find(b"\n") + 1
        line += connection.recv(end or len(ahead))
    return bytes(line)


_CREDENTIALS = struct.Struct("3i")
# User code can write anything to the registration socket. Only these messages are parsed.
_REGISTRATION = re.compile(rb'\{"(snapshot|kernel)": (0|[1-9][0-9]{0,9})\}')
_LARGEST_NUMBER = 0xFFFFFFFF


def parse_registration(data: bytes) -> Optional[Dict[str, int]]:
    """The message of a kernel or a snapshot, or None if the data is not such a message."""
    found = _REGISTRATION.fullmatch(data)
    if found is None or int(found[2]) > _LARGEST_NUMBER:
        return None
    return {found[1].decode("ascii"): int(found[2])}


def register(registration: int, message: Dict[str, int], descriptors: List[int]) -> None:
    """Sends a message from a kernel or a snapshot to pid 1."""
    with socket.socket(fileno=os.dup(registration)) as connection:
        socket.send_fds(connection, [json.dumps(message).encode()], descriptors)


def receive_registration(registration: socket.socket, longest: int) -> Tuple[bytes, List[int], int]:
    """A message that has arrived, its descriptors, and the pid of its sender: 0 if the system does not report it."""
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
