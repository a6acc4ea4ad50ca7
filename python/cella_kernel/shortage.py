"""Whether memory ran out in a sandbox: told by its control group, or found out by looking where there is none."""

from __future__ import annotations

from typing import Optional, Union

from .memory_watch import MemoryWatch
from .sandbox.cgroup import Group, OwnGroup


class Shortage:
    def __init__(self, group: Union[Group, OwnGroup, None]) -> None:
        self._counter: Union[Group, OwnGroup, MemoryWatch, None] = group
        # Where nobody else counts it.
        self.watch: Optional[MemoryWatch] = None
        self._kills = 0

    def begin_watch(self, most_bytes: int) -> None:
        if self._counter is None:
            self._counter = self.watch = MemoryWatch(most_bytes)

    def came(self) -> bool:
        """Since the last time that somebody asked."""
        if self._counter is None:
            return False
        kills = self._counter.oom_kills()
        grew = kills > self._kills
        self._kills = kills
        return grew
