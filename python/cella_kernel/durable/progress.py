"""What a worker is at, in memory that its parent can read also when the worker is dead."""

from __future__ import annotations

import mmap
import struct
from typing import Dict, Iterable, List, Optional, Tuple

_LAYOUT = struct.Struct("QII")
# The first stands for nothing yet.
_STAGES = ("", "save", "load", "extra")


class Progress:
    def __init__(self, names: Iterable[str]) -> None:
        self._memory = mmap.mmap(-1, mmap.PAGESIZE)
        self._names: List[str] = list(names)
        self._numbers: Dict[str, int] = {name: number for number, name in enumerate(self._names)}
        self._count = 0

    def turn_to(self, stage: str, name: str) -> None:
        """`stage` is "save" or "load" for a name, "extra" for a segment that brings none."""
        self._count += 1
        _LAYOUT.pack_into(self._memory, 0, self._count, _STAGES.index(stage), self._numbers[name])

    def forget(self) -> None:
        """For a new worker."""
        self._count = self.steps()
        _LAYOUT.pack_into(self._memory, 0, self._count, 0, 0)

    def steps(self) -> int:
        """Grows with everything that is turned to."""
        count: int = _LAYOUT.unpack_from(self._memory)[0]
        return count

    def at(self) -> Optional[Tuple[str, str]]:
        _, stage, number = _LAYOUT.unpack_from(self._memory)
        if not 0 < stage < len(_STAGES) or number >= len(self._names):
            return None
        return _STAGES[stage], self._names[number]

    def close(self) -> None:
        self._memory.close()
