"""Pid 1's side of an interrupt: SIGINT to one kernel, again and again until it is heard."""

from __future__ import annotations

import signal
import time

from .doorbell import Doorbell
from .processes import send_signal

AGAIN_S = 0.01


class Ringer:
    """Rings for one kernel. `ringing` tells whether `again` must be called every AGAIN_S."""

    def __init__(self, pid: int, bell: Doorbell) -> None:
        self.ringing = False
        self._pid = pid
        self.bell = bell
        self._rings = 0
        self._next = 0.0

    def ring(self, execution: int) -> None:
        self.bell.ring(execution)
        self.ringing = True
        self._rings = 0
        self._once()

    def again(self) -> None:
        if not self.ringing:
            return
        if self.bell.heard():
            self.ringing = False
        elif time.monotonic() >= self._next:
            self._once()

    def _once(self) -> None:
        """The whole group at first, as a terminal would: a child that the code waits for must stop as well.

        A signal that came just before a blocking call, or while the code had it ignored, is not heard, so the kernel is
        signalled again; the group more and more rarely, for a child may have come after the last time.
        """
        self._rings += 1
        whole_group = self._rings & (self._rings - 1) == 0
        send_signal(-self._pid if whole_group else self._pid, signal.SIGINT)
        self._next = time.monotonic() + AGAIN_S
