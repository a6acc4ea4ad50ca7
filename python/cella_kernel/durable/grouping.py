"""Names that must come back together, and the order in which groups of them load."""

from __future__ import annotations

from typing import Any, Collection, Dict, FrozenSet, Iterable, List, NamedTuple, Set, Tuple

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
    # Identities of objects that other names may reach as well.
    shared: List[int]
    # Owner of the memory, array, and whether the array can be a view: as identities, of arrays alone.
    memory: List[Tuple[int, int, bool]]


class Group(NamedTuple):
    names: Names
    needs: FrozenSet[str]
    # Owners of memory that arrays of this group share: these arrays are saved as views.
    linked: FrozenSet[int]


class Unlinkable(NamedTuple):
    """An array that lies in the memory of others, and is of a type that cannot be saved as a view."""

    name: str
    others: List[str]


def shared_memory(records: Dict[str, Record]) -> Dict[int, Dict[int, Set[str]]]:
    """The owners of memory that several arrays lie in: for each, the arrays, and the names that reach them."""
    owners: Dict[int, Dict[int, Set[str]]] = {}
    for name, record in records.items():
        for owner, array, _ in record.memory:
            owners.setdefault(owner, {}).setdefault(array, set()).add(name)
    return {owner: arrays for owner, arrays in owners.items() if len(arrays) > 1}


def unlinkable(records: Dict[str, Record]) -> List[Unlinkable]:
    memory = shared_memory(records)
    found: List[Unlinkable] = []
    for name, record in records.items():
        for owner, _, can_be_view in record.memory:
            if owner in memory and not can_be_view:
                others = {other for names in memory[owner].values() for other in names}
                found.append(Unlinkable(name, sorted(others - {name})))
                break
    return found


def group(records: Dict[str, Record], named: Dict[int, str]) -> List[Group]:
    """In load order: every group after those that it refers to. `named` gives the name of a value by its identity."""
    unions = _Unions(records)
    memory = shared_memory(records)
    holders: Dict[int, str] = {}
    for name, record in records.items():
        for identity in record.shared:
            unions.join(name, holders.setdefault(identity, name))
    for owner, arrays in memory.items():
        # Views of an array that has a name refer to it by that name.
        if owner not in named:
            unions.join_all([name for names in arrays.values() for name in names])
    linked = {name: _linked(record, memory) for name, record in records.items()}
    needs = {
        name: {*record.needs, *(named[owner] for owner in linked[name] if owner in named)} - {name}
        for name, record in records.items()
    }
    order = _order(needs, unions)
    members = unions.members()
    return [_merge(members[root], needs, linked) for root in order]


def _linked(record: Record, memory: Collection[int]) -> Set[int]:
    return {owner for owner, array, _ in record.memory if owner in memory and owner != array}


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

    def members(self) -> Dict[str, List[str]]:
        found: Dict[str, List[str]] = {}
        for name in self._parents:
            found.setdefault(self.root(name), []).append(name)
        return found


def record_from(fields: List[Any]) -> Record:
    """From what a worker told."""
    offset, size, has_code, needs, files, shared, memory = fields
    return Record(offset, size, has_code, needs, files, shared, [(owner, array, view) for owner, array, view in memory])
