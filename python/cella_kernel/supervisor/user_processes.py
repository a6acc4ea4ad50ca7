"""Ends what user code and the host's programs started: processes that pid 1 does not know by number.

A process of ours stands over each program of the host and ends all that came from it; pid 1 steps in if it cannot.
"""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING, Dict, List, Set

from ..processes import descendants, is_held_still, parents, send_signal
from .children import GENTLY

if TYPE_CHECKING:
    from .process_table import KnownProcesses

# How many rounds to look for processes that fork faster than they are found, before everything is stopped for that.
_MOST_ROUNDS = 50


class UserProcesses:
    """`alone`: this is pid 1 of a pid namespace, where everything else came from a kernel."""

    def __init__(self, known: KnownProcesses, alone: bool) -> None:
        self._known = known
        self._alone = alone
        # To be killed as soon as they can be told from kernels.
        self._put_off: Set[int] = set()

    @property
    def put_off(self) -> bool:
        return bool(self._put_off)

    @property
    def are_gone(self) -> bool:
        return not self._alone or parents().keys() <= {os.getpid(), *self._known.everybody}

    def kill(self, also: Set[int]) -> None:
        """Everything but snapshots, programs and the kernels that are not named."""
        spared = self._known.everybody - also
        if self._known.snapshots.restoring:
            self._put_off |= self._beside(spared) - also
            for pid in also:
                self.kill_family(pid)
            return
        if self._alone and not spared:
            send_signal(-1, signal.SIGKILL)
            return
        if self._alone and self._known.programs and self._kill_by_rounds(also):
            return
        if self._alone:
            # Stopped at one stroke, so that nothing can fork its way out while it is looked for.
            send_signal(-1, signal.SIGSTOP)
        for pid in self._beside(spared):
            send_signal(pid, signal.SIGKILL)
        if self._alone:
            for pid in spared:
                send_signal(pid, signal.SIGCONT)

    def kill_family(self, pid: int) -> None:
        """Beside other kernels: what descends from this one. Daemons that left it live until the sandbox ends."""
        for descendant in [pid, *descendants(pid, self._known.everybody)]:
            send_signal(descendant, signal.SIGKILL)

    def catch_up(self) -> None:
        if self._put_off and not self._known.snapshots.restoring:
            late, self._put_off = self._put_off, set()
            for pid in late & self._beside(self._known.everybody):
                send_signal(pid, signal.SIGKILL)

    def _beside(self, spared: Set[int]) -> Set[int]:
        mine = parents().keys() - {os.getpid()} if self._alone else set(descendants(os.getpid(), spared))
        return mine - spared

    def _kill_by_rounds(self, also: Set[int]) -> bool:
        """Beside programs, which are not held still: a shell would take that for Ctrl-Z. False where it finds no end."""
        spared = self._known.pids - also
        killed: Set[int] = set()
        for _ in range(_MOST_ROUNDS):
            # A killed process forks no more: if a round finds no new one, none is left.
            found = set(descendants(os.getpid(), spared)) - killed
            if not found:
                return True
            for pid in found:
                send_signal(pid, signal.SIGKILL)
            killed |= found
        return False


# How often our process over a program that was told to end is checked: the program may have stopped it.
CHECK_S = 0.05
# Longer than that process needs to end all that came from the program.
_LONGEST_STOP_S = 3.0


class Programs:
    def __init__(self) -> None:
        self._pids: Dict[int, int] = {}
        # Those that were told to end, with their deadlines.
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
        # Our process over the program ends its descendants, which only it knows; SIGCONT in case one of them has stopped it.
        send_signal(self._pids[number], GENTLY if gently else signal.SIGTERM)
        send_signal(self._pids[number], signal.SIGCONT)
        if not gently:
            self._ending.setdefault(number, time.monotonic() + _LONGEST_STOP_S)

    def end_late(self) -> None:
        """Kills programs whose overseeing process cannot: it is late, or was stopped again."""
        now = time.monotonic()
        for number, deadline in list(self._ending.items()):
            pid = self._pids[number]
            if now > deadline or is_held_still(pid):
                for each in [*descendants(pid), pid]:
                    send_signal(each, signal.SIGKILL)

    def reaped(self, pid: int) -> List[int]:
        """The number of the program that this process was, if it was one."""
        numbers = [number for number, own in self._pids.items() if own == pid]
        for number in numbers:
            del self._pids[number]
            self._ending.pop(number, None)
        return numbers
