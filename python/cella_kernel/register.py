"""Who lives in a sandbox, by the numbers that the host gave them: kernels, twins and commands, and the forwarder."""

from __future__ import annotations

from typing import Dict, Optional, Set, Tuple

from .commands import Commands
from .doorbell import Doorbells
from .frozen import Twins
from .ringing import Ringer


class Register:
    def __init__(self) -> None:
        self.bells = Doorbells()
        self.kernels: Dict[int, Tuple[int, Ringer]] = {}
        self.twins = Twins(self.bells)
        self.commands = Commands()
        # The process of ours that passes connections on to the host's proxy, while there is one.
        self.forwarder: Optional[int] = None

    @property
    def pids(self) -> Set[int]:
        forwarder = set() if self.forwarder is None else {self.forwarder}
        return self.commands.pids | self.twins.pids | {pid for pid, _ in self.kernels.values()} | forwarder

    @property
    def everybody(self) -> Set[int]:
        """Of the commands, with all that came from them: the host says when they end."""
        return self.pids | self.commands.families
