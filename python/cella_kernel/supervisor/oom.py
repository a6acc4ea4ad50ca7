"""Whether memory ran out in a sandbox: read from its control group or, without one, measured.

Without a control group, pid 1 checks memory from time to time and kills the largest process. A limit on address space
would need no checks, but many programs reserve far more memory than they use.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Dict, Optional, Union

from ..processes import send_signal
from ..sandbox.cgroup import Group, OwnGroup


class OomCounter:
    def __init__(self, group: Union[Group, OwnGroup, None]) -> None:
        self._counter: Union[Group, OwnGroup, MemoryWatch, None] = group
        # Set if there is no control group.
        self.watch: Optional[MemoryWatch] = None
        self._kills = 0

    def begin_watch(self, most_bytes: int) -> None:
        if self._counter is None:
            self._counter = self.watch = MemoryWatch(most_bytes)

    def happened(self) -> bool:
        """Whether a process was killed for memory since the last call."""
        if self._counter is None:
            return False
        kills = self._counter.oom_kills()
        grew = kills > self._kills
        self._kills = kills
        return grew


# The pause between two checks: usually, and if more than half of the memory is in use.
_SELDOM_S, _OFTEN_S = 0.25, 0.05
_OWN = (b"RssAnon:", b"RssShmem:")


class MemoryWatch:
    """Call `check` at least every `pause_s` while any program runs."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._kills = 0
        self._next = 0.0
        self.pause_s = _OFTEN_S

    def oom_kills(self) -> int:
        return self._kills

    def check(self) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        taken = _memory()
        total = sum(taken.values())
        self.pause_s = _OFTEN_S if total * 2 > self._most else _SELDOM_S
        self._next = now + self.pause_s
        if total > self._most and taken:
            self._kills += 1
            send_signal(max(taken, key=lambda pid: taken[pid]), signal.SIGKILL)


def _memory() -> Dict[int, int]:
    """The private and shared memory of each process except this one, in bytes."""
    found: Dict[int, int] = {}
    own = str(os.getpid())
    for name in os.listdir("/proc"):
        if not name.isdigit() or name == own:
            continue
        try:
            with open("/proc/%s/status" % name, "rb") as file:
                lines = (line.split() for line in file if line.startswith(_OWN))
                found[int(name)] = sum(int(words[1]) for words in lines) * 1024
        except OSError:
            continue  # it has ended meanwhile
    return found
