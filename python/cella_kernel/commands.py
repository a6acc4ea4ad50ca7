"""The host's commands in a sandbox, as pid 1 keeps them. Whoever stands over one ends all that came from it."""

from __future__ import annotations

import signal
import time
from typing import Dict, List, Set

from .command import GENTLY
from .processes import descendants, is_held_still, send_signal

# How often whoever stands over a command that was told to end is looked at: the command may hold it still.
LOOK_S = 0.05
# Longer than whoever stands over a command needs to end all that came from it.
_LONGEST_END_S = 3.0


class Commands:
    def __init__(self) -> None:
        self._pids: Dict[int, int] = {}
        # Those that were told to end, and until when they have time for it.
        self._ending: Dict[int, float] = {}

    def __contains__(self, number: int) -> bool:
        return number in self._pids

    def __len__(self) -> int:
        return len(self._pids)

    @property
    def pids(self) -> Set[int]:
        return set(self._pids.values())

    @property
    def families(self) -> Set[int]:
        """With all that came from them."""
        found = self.pids
        for pid in self._pids.values():
            found.update(descendants(pid))
        return found

    @property
    def ending(self) -> bool:
        """Whether `end_late` must be called every LOOK_S."""
        return bool(self._ending)

    def add(self, number: int, pid: int) -> None:
        self._pids[number] = pid

    def end(self, number: int, gently: bool) -> None:
        """`gently`: it is asked to end, and may go on."""
        # It sees to its own family, which nobody else can tell; also where somebody of that holds it still.
        send_signal(self._pids[number], GENTLY if gently else signal.SIGTERM)
        send_signal(self._pids[number], signal.SIGCONT)
        if not gently:
            self._ending.setdefault(number, time.monotonic() + _LONGEST_END_S)

    def end_late(self) -> None:
        """Ends commands for whoever stands over them and cannot: it was told to go on, and is held still again."""
        now = time.monotonic()
        for number, deadline in list(self._ending.items()):
            pid = self._pids[number]
            if now > deadline or is_held_still(pid):
                for each in [*descendants(pid), pid]:
                    send_signal(each, signal.SIGKILL)

    def reaped(self, pid: int) -> List[int]:
        """The number of the command that this process was, where it was one."""
        numbers = [number for number, own in self._pids.items() if own == pid]
        for number in numbers:
            del self._pids[number]
            self._ending.pop(number, None)
        return numbers
