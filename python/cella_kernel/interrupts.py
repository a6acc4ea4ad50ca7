"""How one execution of one kernel is interrupted: pid 1 sends SIGINT, and the kernel raises KeyboardInterrupt.

Pid 1 and its kernels share memory with a slot for each kernel. It holds the execution that SIGINT is for, and whether
the kernel has seen it; pid 1 repeats SIGINT until it has. The kernel raises KeyboardInterrupt only while user code runs.
"""

from __future__ import annotations

import _thread
import mmap
import signal
import struct
import time
from types import CodeType, FrameType
from typing import Any, Callable, Optional, Set, TypeVar

from .processes import send_signal

_WORD = struct.Struct("<I")
_SLOT_BYTES = 8
_MOST_SLOTS = mmap.PAGESIZE // _SLOT_BYTES


class InterruptSlot:
    """The part of the shared memory that belongs to one kernel."""

    def __init__(self, memory: mmap.mmap, number: int) -> None:
        self.number = number
        self._memory = memory
        start = number * _SLOT_BYTES
        self._target = slice(start, start + 4)
        self._seen = slice(start + 4, start + 8)

    def at(self, number: int) -> "InterruptSlot":
        """Another slot in the same memory, for a fork of this kernel that becomes a kernel itself."""
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
    """Pid 1 creates the memory before its first fork, so that all its kernels share it."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, mmap.PAGESIZE)
        self._taken: Set[int] = set()

    def take(self) -> InterruptSlot:
        """Raises OSError if all slots are taken."""
        for number in range(_MOST_SLOTS):
            if number not in self._taken:
                self._taken.add(number)
                slot = InterruptSlot(self._memory, number)
                slot.request(0)
                return slot
        raise OSError("a sandbox has room for %d kernels" % _MOST_SLOTS)

    def release(self, slot: InterruptSlot) -> None:
        self._taken.discard(slot.number)


RESEND_S = 0.01


class InterruptSender:
    """Interrupts one kernel. While `pending`, call `resend` every RESEND_S."""

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
        """Signals the kernel, and at times its whole process group, so that a child that the code waits for stops too.

        A signal is lost if it comes just before a blocking call or while the code ignores SIGINT, so the kernel gets one
        every time. The group gets the 1st, 2nd, 4th, 8th and so on, in case a child has started since.
        """
        self._sent += 1
        to_group = self._sent & (self._sent - 1) == 0
        send_signal(-self._pid if to_group else self._pid, signal.SIGINT)
        self._next = time.monotonic() + RESEND_S


_current_thread = _thread.get_ident
# Pid 1 may repeat SIGINT before it sees the acknowledgement. For this long, a signal without a target is a repetition.
_REPEATED_S = 0.05
_uninterrupted: Set[CodeType] = {InterruptSlot.target.__code__, InterruptSlot.acknowledge.__code__}
_Function = TypeVar("_Function", bound=Callable[..., Any])


def uninterrupted(function: _Function) -> _Function:
    """Marks a function of the kernel that has no handler for KeyboardInterrupt: none is raised in its own code.

    Functions that it calls can still be interrupted. Up to Python 3.9, a signal can come between any two instructions. A
    signal that comes in a marked function is ignored, and pid 1 repeats it.
    """
    _uninterrupted.add(function.__code__)
    return function


class Interrupts:
    """The kernel's handler of SIGINT. As a context manager, it delays interrupts, so that no frame is cut in two."""

    def __init__(self) -> None:
        self._slot: Optional[InterruptSlot] = None
        self._main_thread = _current_thread()
        self._delays = 0
        self._pending = False
        # The last execution and the last request that have ended: the highest bit of a number tells them apart.
        self._finished = [0, 0]
        self._acknowledged_at = 0.0
        # The execution whose code runs now; 0 while only the kernel's own code runs.
        self.active = 0
        # Bound once, so that `begin` can compare it with the handler that is installed.
        self._handler = self._handle

    def arm(self, slot: InterruptSlot) -> None:
        """Handles SIGINT from now on."""
        self._slot = slot
        self._finished = [0, 0]
        signal.signal(signal.SIGINT, self._handler)

    def move(self, slot: int) -> None:
        """Uses the slot of this number, in a fork that has become a kernel itself."""
        if self._slot is not None:
            self.arm(self._slot.at(slot))

    def begin(self, execution: int) -> None:
        if self._slot is not None and signal.getsignal(signal.SIGINT) is not self._handler:
            signal.signal(signal.SIGINT, self._handler)
        self._pending = False
        self.active = execution

    @uninterrupted
    def end(self) -> None:
        self.active = 0

    @uninterrupted
    def finish(self, execution: int) -> None:
        """The execution has ended: interrupts for it are too late and are ignored."""
        self.active = 0
        self._finished[execution >> 31] = execution

    def expect_own(self) -> None:
        """The code is about to send itself SIGINT, which is not a repetition from pid 1."""
        self._acknowledged_at = 0.0

    @uninterrupted
    def _handle(self, _number: int, frame: Optional[FrameType]) -> None:
        if frame is not None and frame.f_code in _uninterrupted:
            return
        slot = self._slot
        target = slot.target() if slot is not None else 0
        # An interrupt for an execution that has not begun is not acknowledged: pid 1 repeats it until it has begun.
        if slot is not None and target and (target == self.active or target <= self._finished[target >> 31]):
            slot.acknowledge()
            self._acknowledged_at = time.monotonic()
        elif not target and time.monotonic() - self._acknowledged_at < _REPEATED_S:
            return
        if not self.active or target not in (0, self.active):
            return
        if self._delays:
            self._pending = True
            return
        raise KeyboardInterrupt

    def __enter__(self) -> None:
        if _current_thread() == self._main_thread:
            self._delays += 1

    def __exit__(self, *_: object) -> None:
        if _current_thread() == self._main_thread:
            self._delays -= 1
            if self._pending and not self._delays:
                self._pending = False
                raise KeyboardInterrupt
