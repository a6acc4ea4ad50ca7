"""Groups of variables that must be loaded together, and the order in which groups are loaded."""

from __future__ import annotations

from typing import Any, Dict, FrozenSet, Iterable, Iterator, List, NamedTuple, Set, Tuple

from .sharing import MemorySharer

Names = Tuple[str, ...]


class Record(NamedTuple):
    """The pickle of a variable or a group: what is known about it, and where it is in the store."""

    # Negative if the pickle was measured but not kept.
    offset: int
    size: int
    has_code: bool
    # Variables that it refers to.
    needs: List[str]
    # Cells that its functions were defined in.
    files: List[str]
    # Variables that share an object with it.
    shares: List[str]
    # Variables, itself included, whose arrays overlap with its own, with the owner of the memory.
    sharers: List[MemorySharer]
    # Where the ids of the objects that it shares are in the store.
    shared_ids: Tuple[int, int]


class Group(NamedTuple):
    names: Names
    needs: FrozenSet[str]
    # Owners of memory that arrays of this group share: these arrays are saved as views.
    linked: FrozenSet[int]


def _shared_memory(records: Dict[str, Record]) -> Dict[int, Dict[str, MemorySharer]]:
    """The sharers of memory by owner and variable, without variables that are lost and arrays that overlap with nothing."""
    owners: Dict[int, Dict[str, MemorySharer]] = {}
    for record in records.values():
        for sharer in record.sharers:
            if sharer.name in records:
                owners.setdefault(sharer.owner, {})[sharer.name] = sharer
    return {
        owner: sharers for owner, sharers in owners.items()
        if len(sharers) > 1 or any(sharer.overlaps for sharer in sharers.values())
    }


def unlinkable(records: Dict[str, Record]) -> Iterator[Tuple[str, List[str]]]:
    """Variables with an array that overlaps with others and cannot be saved as a view, and the names of the others."""
    for sharers in _shared_memory(records).values():
        for name, sharer in sharers.items():
            if not sharer.can_be_views:
                yield name, sorted(set(sharers) - {name})


def group(records: Dict[str, Record], named: Dict[int, str]) -> List[Group]:
    """In load order: each group after those that it refers to. `named` has the variable of a value by the value's id."""
    # Variables that share something with the same lost variable belong together, too.
    unions = _Unions([*records, *(other for record in records.values() for other in record.shares)])
    for name, record in records.items():
        unions.join_all([name, *record.shares])
    linked: Dict[str, Set[int]] = {name: set() for name in records}
    needs = {name: set(record.needs) for name, record in records.items()}
    for owner, sharers in _shared_memory(records).items():
        for name, sharer in sharers.items():
            if sharer.has_views:
                linked[name].add(owner)
                # Views of an array that is a variable refer to it by that name.
                needs[name] |= {named[owner]} if owner in named else set()
        if owner not in named:
            unions.join_all(list(sharers))
    order = _order(needs, unions)
    members = unions.members(records)
    return [_merge(members[root], needs, linked) for root in order]


def _order(needs: Dict[str, Set[str]], unions: "_Unions") -> List[str]:
    """The roots of groups, each after those that it needs. Groups that need each other are joined."""
    graph: Dict[str, List[str]] = {}
    for name, others in needs.items():
        graph.setdefault(unions.root(name), []).extend(unions.root(other) for other in sorted(others) if other in needs)
    order: List[str] = []
    for component in _components(graph):
        unions.join_all(component)
        order.append(unions.root(component[0]))
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
    """From the report of a worker."""
    offset, size, has_code, needs, files, shares, sharers, shared_ids = fields
    memory_sharers = [MemorySharer(*sharer) for sharer in sharers]
    return Record(offset, size, has_code, needs, files, shares, memory_sharers, tuple(shared_ids))


def _components(graph: Dict[str, List[str]]) -> Iterator[List[str]]:
    """Strongly connected components, each after those that it refers to (Tarjan's algorithm)."""
    search = _Search(graph)
    for node in graph:
        if node not in search.number:
            yield from search.visit(node)


class _Search:
    def __init__(self, graph: Dict[str, List[str]]) -> None:
        self._graph = graph
        # In the order in which nodes are reached; the lowest that each leads back to; those whose group is not known.
        self.number: Dict[str, int] = {}
        self._lowest: Dict[str, int] = {}
        self._open: List[str] = []
        self._calls: List[Tuple[str, Iterator[str]]] = []

    def visit(self, start: str) -> Iterator[List[str]]:
        self._enter(start)
        while self._calls:
            node, others = self._calls[-1]
            for other in others:
                if other not in self.number:
                    self._enter(other)
                    break
                self._leads_to(node, self.number[other])
            else:
                self._calls.pop()
                if self._lowest[node] == self.number[node]:
                    yield self._take(node)
                elif self._calls:
                    self._leads_to(self._calls[-1][0], self._lowest[node])

    def _enter(self, node: str) -> None:
        self.number[node] = self._lowest[node] = len(self.number)
        self._open.append(node)
        self._calls.append((node, iter(self._graph[node])))

    def _leads_to(self, node: str, number: int) -> None:
        self._lowest[node] = min(self._lowest[node], number)

    def _take(self, node: str) -> List[str]:
        found: List[str] = []
        while not found or found[-1] != node:
            found.append(self._open.pop())
            # Edges to a finished component no longer count.
            self.number[found[-1]] = len(self._graph)
        return found[::-1]
