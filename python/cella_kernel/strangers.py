"""Processes of a sandbox that are none of its residents: the code started them, and they end with the kernel they came from."""

from __future__ import annotations

import os
import signal
from typing import Set

from .processes import descendants, parents, send_signal
from .register import Register

# How often processes that fork faster than they are found are looked for, before everything is held still for that.
_MOST_ROUNDS = 50


class Strangers:
    """`alone`: this is pid 1 of a pid namespace, where everything else came from a kernel."""

    def __init__(self, register: Register, alone: bool) -> None:
        self._register = register
        self._alone = alone
        # They are to end as soon as they can be told from kernels.
        self._put_off: Set[int] = set()

    @property
    def put_off(self) -> bool:
        return bool(self._put_off)

    @property
    def are_gone(self) -> bool:
        return not self._alone or parents().keys() <= {os.getpid(), *self._register.everybody}

    def kill(self, also: Set[int]) -> None:
        """Everything but twins, commands and the kernels that are not named."""
        spared = self._register.everybody - also
        if self._register.twins.waking:
            self._put_off |= self._beside(spared) - also
            for pid in also:
                self.kill_family(pid)
            return
        if self._alone and not spared:
            send_signal(-1, signal.SIGKILL)
            return
        if self._alone and self._register.commands and self._kill_by_rounds(also):
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
        for descendant in [pid, *descendants(pid, self._register.everybody)]:
            send_signal(descendant, signal.SIGKILL)

    def catch_up(self) -> None:
        if self._put_off and not self._register.twins.waking:
            late, self._put_off = self._put_off, set()
            for pid in late & self._beside(self._register.everybody):
                send_signal(pid, signal.SIGKILL)

    def _beside(self, spared: Set[int]) -> Set[int]:
        mine = parents().keys() - {os.getpid()} if self._alone else set(descendants(os.getpid(), spared))
        return mine - spared

    def _kill_by_rounds(self, also: Set[int]) -> bool:
        """Beside commands, which are not held still: a shell would take that for Ctrl-Z. False where it finds no end."""
        spared = self._register.pids - also
        killed: Set[int] = set()
        for _ in range(_MOST_ROUNDS):
            # Whoever was killed forks no more: when nobody has come since the last look, nobody is left.
            found = set(descendants(os.getpid(), spared)) - killed
            if not found:
                return True
            for pid in found:
                send_signal(pid, signal.SIGKILL)
            killed |= found
        return False
