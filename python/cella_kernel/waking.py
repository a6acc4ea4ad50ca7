"""How a spare sleeps and wakes: it is to be ready before whoever takes it has found out what to send.

The host goes on computing when it has woken a spare, but the scheduler may take it for one that is about to sleep, and put
the spare on the same processor. There one of them would wait for the other while a processor is idle: so a spare runs as
soon as it is woken, and then goes where the host is not. All of this saves time and nothing else: where it is refused, the
spare wakes up a little later.
"""

from __future__ import annotations

import os

from .sandbox import linux

_SHORT_NS = 100_000


class Sleeper:
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
