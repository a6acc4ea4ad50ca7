"""Ends processes that user code and the host's programs have started, which pid 1 does not know by number.

Each program of the host has a monitor (see children.py) that ends its descendants. If the monitor cannot, pid 1 does.
"""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Dict, List, Set

from ..processes import descendants, is_stopped, parents, send_signal
from .children import GENTLY

if TYPE_CHECKING:
    from .process_table import KnownProcesses

# How many rounds to search for processes that fork faster than they are found, before all processes are stopped.
_MOST_ROUNDS = 50


class UserProcesses:
    """`alone`: whether this is pid 1 of a pid namespace, where all other processes come from kernels and programs."""

    def __init__(self, known: KnownProcesses, alone: bool) -> None:
        self._known = known
        self._alone = alone
        # To be killed as soon as it is known that they are not kernels.
        self._postponed: Set[int] = set()

    @property
    def postponed(self) -> bool:
        return bool(self._postponed)

    @property
    def are_gone(self) -> bool:
        return not self._alone or parents().keys() <= {os.getpid(), *self._known.with_descendants}

    def kill(self, also: Set[int]) -> None:
        """Kills the kernels `also`, and all processes except other kernels, snapshots and programs with their descendants."""
        spared = self._known.with_descendants - also
        if self._known.snapshots.restoring:
            self._postponed |= self._beside(spared) - also
            for pid in also:
                self.kill_family(pid)
            return
        if self._alone and not spared:
            send_signal(-1, signal.SIGKILL)
            return
        if self._alone and self._known.programs and self._kill_by_rounds(also):
            return
        if self._alone:
            # Stops all processes at once, so that none can fork while they are found.
            send_signal(-1, signal.SIGSTOP)
        for pid in self._beside(spared):
            send_signal(pid, signal.SIGKILL)
        if self._alone:
            for pid in spared:
                send_signal(pid, signal.SIGCONT)

    def kill_family(self, pid: int) -> None:
        """Kills a kernel with its descendants, while other kernels run. Its daemons live until the sandbox ends."""
        for descendant in [pid, *descendants(pid, self._known.with_descendants)]:
            send_signal(descendant, signal.SIGKILL)

    def kill_postponed(self) -> None:
        if self._postponed and not self._known.snapshots.restoring:
            late, self._postponed = self._postponed, set()
            for pid in late & self._beside(self._known.with_descendants):
                send_signal(pid, signal.SIGKILL)

    def _beside(self, spared: Set[int]) -> Set[int]:
        mine = parents().keys() - {os.getpid()} if self._alone else set(descendants(os.getpid(), spared))
        return mine - spared

    def _kill_by_rounds(self, also: Set[int]) -> bool:
        """Kills without stopping programs: a shell would take that for Ctrl-Z. Returns False if it finds no end."""
        spared = self._known.pids - also
        killed: Set[int] = set()
        for _ in range(_MOST_ROUNDS):
            # A killed process cannot fork: if a round finds no new process, none is left.
            found = set(descendants(os.getpid(), spared)) - killed
            if not found:
                return True
            for pid in found:
                send_signal(pid, signal.SIGKILL)
            killed |= found
        return False


# How often the monitor of a program that should end is checked, as the program may have stopped it.
CHECK_S = 0.05
# Longer than the monitor needs to end the program's descendants.
_LONGEST_STOP_S = 3.0


class Programs:
    """The programs of the host, by number; each pid is that of the monitor."""

    def __init__(self) -> None:
        self._pids: Dict[int, int] = {}
        # Programs that should end, with their deadlines.
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
        """With all their descendants."""
        found = self.pids
        for pid in self._pids.values():
            found.update(descendants(pid))
        return found

    @property
    def ending(self) -> bool:
        """Whether `end_late` must be called every CHECK_S."""
        return bool(self._ending)

    def add(self, number: int, pid: int) -> None:
        self._pids[number] = pid

    def end(self, number: int, gently: bool) -> None:
        """`gently`: sends SIGTERM to the program, which may ignore it."""
        # The monitor ends the program's descendants. SIGCONT, as one of them may have stopped the monitor.
        send_signal(self._pids[number], GENTLY if gently else signal.SIGTERM)
        send_signal(self._pids[number], signal.SIGCONT)
        if not gently:
            self._ending.setdefault(number, time.monotonic() + _LONGEST_STOP_S)

    def end_late(self) -> None:
        """Kills programs whose monitor is late, or was stopped again."""
        now = time.monotonic()
        for number, deadline in list(self._ending.items()):
            pid = self._pids[number]
            if now > deadline or is_stopped(pid):
                for each in [*descendants(pid), pid]:
                    send_signal(each, signal.SIGKILL)

    def reaped(self, pid: int) -> List[int]:
        """Removes the program whose monitor this process was. Returns its number in a list, or an empty list."""
        numbers = [number for number, own in self._pids.items() if own == pid]
        for number in numbers:
            del self._pids[number]
            self._ending.pop(number, None)
        return numbers
