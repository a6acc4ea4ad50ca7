"""The doorbell of a kernel in a worker: a device, read for the execution that an interrupt is meant for."""

from __future__ import annotations

import struct
from posix import read, write

_WORD = struct.Struct("<I")


class Bell:
    def __init__(self, fd: int) -> None:
        self._fd = fd

    def target(self) -> int:
        return int(_WORD.unpack(read(self._fd, 4))[0])

    def hear(self) -> None:
        write(self._fd, b"h")

    def end(self, number: int) -> None:
        """The process is about to end, by its own signal."""
        write(self._fd, b"k" + _WORD.pack(number))

    def alarm(self, seconds: float) -> None:
        """A SIGALRM after that time; 0 for none any more."""
        write(self._fd, b"a" + _WORD.pack(max(2, int(seconds * 1000)) if seconds else 1))
