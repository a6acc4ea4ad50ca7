"""How a spare kernel is scheduled: it must be ready before the host has decided what to send.

The host keeps computing after it has woken a spare, but the scheduler may expect it to sleep soon, and put the spare on
the same processor. One would then wait for the other while another processor is idle. So a spare runs as soon as it is
woken, and then moves to another processor. This only saves time: if it is refused, the spare wakes a little later.
"""

from __future__ import annotations

import os

from ..sandbox import linux

_SHORT_NS = 100_000


class SpareScheduling:
    def __init__(self) -> None:
        self._allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()
        linux.ask_for_slices(_SHORT_NS)

    def make_way(self, processor: int) -> None:
        """Leaves the processor that the host computes on, and may run on any of them again."""
        others = self._allowed - {processor}
        if not others or others == self._allowed:
            return
        try:
            os.sched_setaffinity(0, others)
            os.sched_setaffinity(0, self._allowed)
        except OSError:
            pass  # it stays where it is

    def get_up(self) -> None:
        """From here on it is scheduled like any other process."""
        linux.ask_for_slices(0)
