"""Memory that pid 1 shares with its kernels: which execution a SIGINT is for, and whether the kernel has seen it.

Pid 1 sends SIGINT to one kernel again and again until the kernel has seen it.
"""

from __future__ import annotations

import mmap
import signal
import struct
import time
from typing import Set

from .processes import send_signal

_WORD = struct.Struct("<I")
_BYTES = 8
_MOST = mmap.PAGESIZE // _BYTES


class InterruptSlot:
    """One kernel's part of the memory."""

    def __init__(self, memory: mmap.mmap, number: int) -> None:
        self.number = number
        self._memory = memory
        start = number * _BYTES
        self._target = slice(start, start + 4)
        self._seen = slice(start + 4, start + 8)

    def at(self, number: int) -> "InterruptSlot":
        """Another kernel's: a fork of this one takes it when it becomes a kernel of its own."""
        return InterruptSlot(self._memory, number)

    def request(self, execution: int) -> None:
        self._memory[self._seen] = _WORD.pack(0)
        self._memory[self._target] = _WORD.pack(execution)

    def target(self) -> int:
        return _WORD.unpack(self._memory[self._target])[0]

    def acknowledge(self) -> None:
        self._memory[self._seen] = self._memory[self._target]
        self._memory[self._target] = _WORD.pack(0)

    def acknowledged(self) -> bool:
        return self._memory[self._seen] != b"\0\0\0\0"


class InterruptSlots:
    """Made by pid 1 before its first fork, so that every process of the sandbox has the same."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, mmap.PAGESIZE)
        self._taken: Set[int] = set()

    def take(self) -> InterruptSlot:
        """Raises OSError where there are as many kernels as there can be."""
        for number in range(_MOST):
            if number not in self._taken:
                self._taken.add(number)
                slot = InterruptSlot(self._memory, number)
                slot.request(0)
                return slot
        raise OSError("a sandbox has room for %d kernels" % _MOST)

    def release(self, slot: InterruptSlot) -> None:
        self._taken.discard(slot.number)


RESEND_S = 0.01


class InterruptSender:
    """Interrupts one kernel. While `pending`, `resend` must be called every RESEND_S."""

    def __init__(self, pid: int, slot: InterruptSlot) -> None:
        self.pending = False
        self._pid = pid
        self.slot = slot
        self._sent = 0
        self._next = 0.0

    def send(self, execution: int) -> None:
        self.slot.request(execution)
        self.pending = True
        self._sent = 0
        self._send_once()

    def resend(self) -> None:
        if not self.pending:
            return
        if self.slot.acknowledged():
            self.pending = False
        elif time.monotonic() >= self._next:
            self._send_once()

    def _send_once(self) -> None:
        """The whole group at first, as a terminal would: a child that the code waits for must stop as well.

        A signal that came just before a blocking call, or while the code had it ignored, is lost, so the kernel is
        signalled again; the group more and more rarely, for a child may have come after the last time.
        """
        self._sent += 1
        whole_group = self._sent & (self._sent - 1) == 0
        send_signal(-self._pid if whole_group else self._pid, signal.SIGINT)
        self._next = time.monotonic() + RESEND_S
