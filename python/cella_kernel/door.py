"""The door of a container: the folder, read-only, in which the host listens on a socket and puts pipes.

Only pid 1 goes through it. It holds the socket by a descriptor, so that the host can take the name away before any
user code runs; each further connection begins with a word that the host has just said to pid 1, and takes once.
"""

from __future__ import annotations

import os
import socket
from typing import Any, Dict, List

from . import frames
from .processes import widen


class Door:
    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._socket = os.open(os.path.join(folder, "host"), os.O_PATH | os.O_CLOEXEC)

    def enter(self) -> int:
        """Pid 1's own connection. The word for it lies in a file that is gone when the host has heard it."""
        with open(os.path.join(self._folder, "word"), "rb") as file:
            return self._connect(file.read())

    def open(self, request: Dict[str, Any]) -> List[int]:
        """For a kernel or a command: its connection, the writing ends of its two pipes, then their reading ends."""
        paths = [os.path.join(self._folder, name) for name in (request["out"], request["err"])]
        opened: List[int] = []
        try:
            # The host has its ends open already, so that neither of these waits.
            for flags in (os.O_WRONLY, os.O_RDONLY | os.O_NONBLOCK):
                opened += [os.open(path, flags | os.O_CLOEXEC) for path in paths]
            for fd in opened[:2]:
                widen(fd)
            return [self._connect(bytes.fromhex(request["word"])), *opened]
        except OSError:
            for fd in opened:
                os.close(fd)
            raise

    def _connect(self, word: bytes) -> int:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect("/proc/self/fd/%d" % self._socket)
            connection.sendall(frames.HEADER.pack(len(word), frames.JOIN, 0) + word)
        except OSError:
            connection.close()
            raise
        return connection.detach()
