"""Memory that pid 1 of a sandbox shares with its kernels: which execution a SIGINT is meant for, and whether it was heard."""

from __future__ import annotations

import mmap
import struct
from typing import Set

_WORD = struct.Struct("<I")
_BYTES = 8
_MOST = mmap.PAGESIZE // _BYTES


class Doorbell:
    """One kernel's part of the memory."""

    def __init__(self, memory: mmap.mmap, place: int) -> None:
        self.place = place
        self._memory = memory
        start = place * _BYTES
        self._target = slice(start, start + 4)
        self._heard = slice(start + 4, start + 8)

    def at(self, place: int) -> "Doorbell":
        """That of another kernel: a fork of this one takes it when it is a kernel of its own."""
        return Doorbell(self._memory, place)

    def ring(self, execution: int) -> None:
        self._memory[self._heard] = _WORD.pack(0)
        self._memory[self._target] = _WORD.pack(execution)

    def target(self) -> int:
        return _WORD.unpack(self._memory[self._target])[0]

    def hear(self) -> None:
        self._memory[self._heard] = self._memory[self._target]
        self._memory[self._target] = _WORD.pack(0)

    def heard(self) -> bool:
        return self._memory[self._heard] != b"\0\0\0\0"


class Doorbells:
    """Made by pid 1 before its first fork, so that every process of the sandbox has the same."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, mmap.PAGESIZE)
        self._taken: Set[int] = set()

    def take(self) -> Doorbell:
        """Raises OSError where there are as many kernels as there can be."""
        for place in range(_MOST):
            if place not in self._taken:
                self._taken.add(place)
                bell = Doorbell(self._memory, place)
                bell.ring(0)
                return bell
        raise OSError("a sandbox has room for %d kernels" % _MOST)

    def give(self, bell: Doorbell) -> None:
        self._taken.discard(bell.place)
