"""Names that must come back together, and the order in which groups of them load."""

from __future__ import annotations

from typing import Any, Dict, FrozenSet, Iterable, Iterator, List, NamedTuple, Set, Tuple

from .bonds import Party
from .circles import circles

Names = Tuple[str, ...]


class Record(NamedTuple):
    """What the pickle of a name, or of a group of them, is like, and where it lies."""

    # Negative where it was counted and not kept.
    offset: int
    size: int
    has_code: bool
    # Names that it refers to.
    needs: List[str]
    # Cells that its functions come from.
    files: List[str]
    # Names that reach an object that it reaches too.
    shares: List[str]
    # Names, itself among them, whose arrays overlap with its own, and in whose memory.
    parties: List[Party]
    # Where its bonds lie.
    bonds: Tuple[int, int]


class Group(NamedTuple):
    names: Names
    needs: FrozenSet[str]
    # Owners of memory that arrays of this group share: these arrays are saved as views.
    linked: FrozenSet[int]


def shared_memory(records: Dict[str, Record]) -> Dict[int, Dict[str, Party]]:
    """By owner and name, all that overlap with something. What is lost does not count."""
    owners: Dict[int, Dict[str, Party]] = {}
    for record in records.values():
        for party in record.parties:
            if party.name in records:
                owners.setdefault(party.owner, {})[party.name] = party
    return {
        owner: parties for owner, parties in owners.items()
        if len(parties) > 1 or any(party.overlaps for party in parties.values())
    }


def unlinkable(records: Dict[str, Record]) -> Iterator[Tuple[str, List[str]]]:
    """Names with an array that overlaps with others and cannot be saved as a view, and the names of the others."""
    for parties in shared_memory(records).values():
        for name, party in parties.items():
            if not party.can_be_views:
                yield name, sorted(set(parties) - {name})


def group(records: Dict[str, Record], named: Dict[int, str]) -> List[Group]:
    """In load order: every group after those that it refers to. `named` gives the name of a value by its identity."""
    # A lost name is still a bond between those that share something with it.
    unions = _Unions([*records, *(other for record in records.values() for other in record.shares)])
    for name, record in records.items():
        unions.join_all([name, *record.shares])
    linked: Dict[str, Set[int]] = {name: set() for name in records}
    needs = {name: set(record.needs) for name, record in records.items()}
    for owner, parties in shared_memory(records).items():
        for name, party in parties.items():
            if party.has_views:
                linked[name].add(owner)
                # Views of an array that has a name refer to it by that name.
                needs[name] |= {named[owner]} if owner in named else set()
        if owner not in named:
            unions.join_all(list(parties))
    order = _order(needs, unions)
    members = unions.members(records)
    return [_merge(members[root], needs, linked) for root in order]


def _order(needs: Dict[str, Set[str]], unions: "_Unions") -> List[str]:
    """Roots, each after those that it needs. What needs each other in a circle becomes one."""
    graph: Dict[str, List[str]] = {}
    for name, others in needs.items():
        graph.setdefault(unions.root(name), []).extend(unions.root(other) for other in sorted(others) if other in needs)
    order: List[str] = []
    for circle in circles(graph):
        unions.join_all(circle)
        order.append(unions.root(circle[0]))
    return order


def _merge(names: List[str], needs: Dict[str, Set[str]], linked: Dict[str, Set[int]]) -> Group:
    outside = {other for name in names for other in needs[name]} - set(names)
    return Group(tuple(names), frozenset(outside), frozenset(owner for name in names for owner in linked[name]))


class _Unions:
    def __init__(self, names: Iterable[str]) -> None:
        self._parents = {name: name for name in names}

    def root(self, name: str) -> str:
        while self._parents[name] != name:
            self._parents[name] = name = self._parents[self._parents[name]]
        return name

    def join(self, one: str, other: str) -> None:
        self._parents[self.root(other)] = self.root(one)

    def join_all(self, names: List[str]) -> None:
        for name in names[1:]:
            self.join(names[0], name)

    def members(self, names: Iterable[str]) -> Dict[str, List[str]]:
        found: Dict[str, List[str]] = {}
        for name in names:
            found.setdefault(self.root(name), []).append(name)
        return found


def record_from(fields: List[Any]) -> Record:
    """From what a worker told."""
    offset, size, has_code, needs, files, shares, parties, bonds = fields
    return Record(offset, size, has_code, needs, files, shares, [Party(*party) for party in parties], tuple(bonds))
