"""SIGINT in a kernel: it becomes KeyboardInterrupt only while user code runs, and only for the execution it is meant for."""

from __future__ import annotations

import _thread
import signal
import time
from types import CodeType, FrameType
from typing import Any, Callable, Optional, Set, TypeVar

from .interrupt_slot import InterruptSlot

_main = _thread.get_ident
# Pid 1 may signal once more before it sees the acknowledgement. For this long, a signal without a target is such an echo.
_ECHO_S = 0.05
_whole: Set[CodeType] = {InterruptSlot.target.__code__, InterruptSlot.acknowledge.__code__}
_Function = TypeVar("_Function", bound=Callable[..., Any])


def whole(function: _Function) -> _Function:
    """A function of the kernel in which no interrupt is raised, though in what it calls: nothing would catch it there.

    Up to Python 3.9 a signal may come between any two instructions. One that comes here is ignored, and sent again.
    """
    _whole.add(function.__code__)
    return function


class Interrupts:
    def __init__(self) -> None:
        self._slot: Optional[InterruptSlot] = None
        self._main_thread = _main()
        self._held = 0
        self._pending = False
        # The last execution and the last request that are over: the highest bit of a number tells them apart.
        self._finished = [0, 0]
        self._heard_at = 0.0
        # The execution whose code runs now; 0 while the kernel's own code does.
        self.active = 0
        # Bound once: a fresh bound method would never be the handler that is installed.
        self._handler = self._handle

    def arm(self, slot: InterruptSlot) -> None:
        """From here on this process heeds SIGINT."""
        self._slot = slot
        self._finished = [0, 0]
        signal.signal(signal.SIGINT, self._handler)

    def move(self, slot: int) -> None:
        """In a fork that has become a kernel of its own: it uses a slot of its own."""
        if self._slot is not None:
            self.arm(self._slot.at(slot))

    def begin(self, execution: int) -> None:
        if self._slot is not None and signal.getsignal(signal.SIGINT) is not self._handler:
            signal.signal(signal.SIGINT, self._handler)
        self._pending = False
        self.active = execution

    @whole
    def end(self) -> None:
        self.active = 0

    @whole
    def finish(self, execution: int) -> None:
        """The execution is over: an interrupt that comes for it is late."""
        self.active = 0
        self._finished[execution >> 31] = execution

    def expect_own(self) -> None:
        """The code is about to send itself a SIGINT: that is no echo."""
        self._heard_at = 0.0

    @whole
    def _handle(self, _number: int, frame: Optional[FrameType]) -> None:
        if frame is not None and frame.f_code in _whole:
            return
        slot = self._slot
        target = slot.target() if slot is not None else 0
        # An interrupt for an execution that has not begun is ignored: pid 1 sends it again until it has.
        if slot is not None and target and (target == self.active or target <= self._finished[target >> 31]):
            slot.acknowledge()
            self._heard_at = time.monotonic()
        elif not target and time.monotonic() - self._heard_at < _ECHO_S:
            return
        if not self.active or target not in (0, self.active):
            return
        if self._held:
            self._pending = True
            return
        raise KeyboardInterrupt

    def __enter__(self) -> None:
        """Holds back interrupts in a `with` block, so that no frame is cut in two."""
        if _main() == self._main_thread:
            self._held += 1

    def __exit__(self, *_: object) -> None:
        if _main() == self._main_thread:
            self._held -= 1
            if self._pending and not self._held:
                self._pending = False
                raise KeyboardInterrupt
