"""Memory that pid 1 of a sandbox shares with a kernel: which execution a SIGINT is meant for, and whether it was heard."""

from __future__ import annotations

import mmap
import struct

_WORD = struct.Struct("<I")


class Doorbell:
    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 8)

    def ring(self, execution: int) -> None:
        self._memory[4:8] = _WORD.pack(0)
        self._memory[0:4] = _WORD.pack(execution)

    def target(self) -> int:
        return _WORD.unpack(self._memory[0:4])[0]

    def hear(self) -> None:
        self._memory[4:8] = self._memory[0:4]
        self._memory[0:4] = _WORD.pack(0)

    def heard(self) -> bool:
        return self._memory[4:8] != b"\0\0\0\0"
