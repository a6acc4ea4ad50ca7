"""The gate: where kernels and twins tell pid 1 of their sandbox what they are, with a descriptor or two."""

from __future__ import annotations

import array
import json
import os
import re
import socket
import struct
from typing import Dict, List, Optional, Tuple

_CREDENTIALS = struct.Struct("3i")
# All that is ever said here. Code may write anything: nothing of it is taken apart further than this.
_WORD = re.compile(rb'\{"(twin|kernel)": (0|[1-9][0-9]{0,9})\}')
_LARGEST_NUMBER = 0xFFFFFFFF


def parse(data: bytes) -> Optional[Dict[str, int]]:
    """The word of a kernel or a twin; None where it is none."""
    found = _WORD.fullmatch(data)
    if found is None or int(found[2]) > _LARGEST_NUMBER:
        return None
    return {found[1].decode("ascii"): int(found[2])}


def tell(gate: int, word: Dict[str, int], descriptors: List[int]) -> None:
    """From a kernel or a twin to pid 1."""
    with socket.socket(fileno=os.dup(gate)) as way:
        socket.send_fds(way, [json.dumps(word).encode()], descriptors)


def hear(gate: socket.socket, longest: int) -> Tuple[bytes, List[int], int]:
    """A word from a kernel that is there already, what came with it, and the process that it is from.

    That is 0 where the system does not tell.
    """
    room = socket.CMSG_SPACE(16 * 4) + socket.CMSG_SPACE(_CREDENTIALS.size)
    data, ancillary, _, _ = gate.recvmsg(longest, room, getattr(socket, "MSG_CMSG_CLOEXEC", 0) | socket.MSG_DONTWAIT)
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


