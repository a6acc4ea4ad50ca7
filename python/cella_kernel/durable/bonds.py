"""What ties names together: objects that several of them reach, and memory that several of their arrays lie in.

A worker knows all of it by the identities of objects, which may be millions. It tells only which names are tied, and
leaves the rest in the store, for the worker that takes over when it dies.
"""

from __future__ import annotations

from array import array
from typing import Any, Dict, List, NamedTuple, Set, Tuple


class Stretch(NamedTuple):
    """Where the arrays of one name lie in the memory of one owner."""

    owner: int
    # Addresses of the first byte, and of the one after the last.
    low: int
    high: int
    # Whether one of the arrays is not the owner itself; whether all those can be saved as views.
    has_views: int
    can_be_views: int
    # Whether two of the name's own arrays overlap.
    overlaps: int


class Party(NamedTuple):
    """A name whose arrays overlap with others, its own or those of another name, in the memory of this owner."""

    owner: int
    name: str
    has_views: bool
    can_be_views: bool
    overlaps: bool


class Bonds:
    def __init__(self) -> None:
        self._holders: Dict[int, str] = {}
        self._stretches: Dict[int, List[Tuple[str, Stretch]]] = {}

    def add(self, name: str, identities: "array[int]", stretches: List[Stretch]) -> Tuple[List[str], List[Party]]:
        """The names that hold one of these objects already, and the parties to memory that this name shares."""
        holders = {self._holders.setdefault(identity, name) for identity in identities} - {name}
        parties: Set[Party] = set()
        for stretch in stretches:
            known = self._stretches.setdefault(stretch.owner, [])
            met = [(other, part) for other, part in known if part.low < stretch.high and stretch.low < part.high]
            if met or stretch.overlaps:
                parties.update(_party(*item) for item in (*met, (name, stretch)))
            known.append((name, stretch))
        return sorted(holders), sorted(parties)


def _party(name: str, stretch: Stretch) -> Party:
    return Party(stretch.owner, name, bool(stretch.has_views), bool(stretch.can_be_views), bool(stretch.overlaps))


def pack(identities: "array[int]", stretches: List[Stretch]) -> bytes:
    numbers = array("Q", [len(identities)])
    numbers.extend(identities)
    for stretch in stretches:
        numbers.extend(stretch)
    return numbers.tobytes()


def unpack(data: Any) -> Tuple["array[int]", List[Stretch]]:
    numbers = array("Q")
    numbers.frombytes(data)
    end = 1 + numbers[0]
    width = len(Stretch._fields)
    parts = [numbers[start : start + width] for start in range(end, len(numbers), width)]
    return numbers[1:end], [Stretch(*part) for part in parts]
