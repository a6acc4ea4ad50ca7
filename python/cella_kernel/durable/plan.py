"""What is known about a save so far. Workers report each fact as an event, so that it survives their death.

Also here: the progress of a worker, in shared memory, and which variables must be given up.
"""

from __future__ import annotations

import json
import mmap
import struct
from typing import Any, Dict, Iterable, Iterator, List, Optional, Set, Tuple

from . import groups
from .groups import Group, Names, Record
from .variables import LAST_RESULTS, module_name
from .worker import Event, WorkerEnd

_LAYOUT = struct.Struct("QII")
# The first means that nothing has begun.
_STAGES = ("", "save", "load", "extra")


class Progress:
    """What a worker is working on, in memory that it shares with its parent."""

    def __init__(self, names: Iterable[str]) -> None:
        self._memory = mmap.mmap(-1, mmap.PAGESIZE)
        self._names: List[str] = list(names)
        self._numbers: Dict[str, int] = {name: number for number, name in enumerate(self._names)}
        self._count = 0

    def begin(self, stage: str, name: str) -> None:
        """`stage` is "save" or "load" for a variable, "extra" for a segment without variables."""
        self._count += 1
        _LAYOUT.pack_into(self._memory, 0, self._count, _STAGES.index(stage), self._numbers[name])

    def forget(self) -> None:
        """For a new worker."""
        self._count = self.steps()
        _LAYOUT.pack_into(self._memory, 0, self._count, 0, 0)

    def steps(self) -> int:
        """How many steps have begun."""
        count: int = _LAYOUT.unpack_from(self._memory)[0]
        return count

    def at(self) -> Optional[Tuple[str, str]]:
        _, stage, number = _LAYOUT.unpack_from(self._memory)
        if not 0 < stage < len(_STAGES) or number >= len(self._names):
            return None
        return _STAGES[stage], self._names[number]

    def close(self) -> None:
        self._memory.close()


# Segments without variables.
_EXTRAS = ("cwd", "random")


class Plan:
    def __init__(self, values: Dict[str, Any], limit_bytes: int) -> None:
        self.values = values
        self.limit_bytes = limit_bytes
        self.progress = Progress([*values, *_EXTRAS])
        self.failure = ""
        # The bytes of pickles that were kept from the first trial of each variable.
        self.kept = 0
        # How many bytes of the store are in use.
        self.end = 0
        # By name: what the variable is (a module, a definition with its source, or neither), and its pickle.
        self.facts: Dict[str, Dict[str, Any]] = {}
        self.records: Dict[str, Record] = {}
        self.lost: Dict[str, str] = {}
        # By name: why a definition is saved only as source.
        self.source_only: Dict[str, str] = {}
        # Segments without variables by kind. None if one could not be created.
        self.extras: Dict[str, Optional[Tuple[int, int]]] = {}
        self.written: Dict[Names, Record] = {}
        self.verified: Set[Names] = set()
        self._hung: Dict[int, int] = {}

    def apply(self, event: Event) -> None:
        kind, *rest = event
        if kind == "looked":
            self.facts[rest[0]] = rest[1]
        elif kind == "extra":
            self.extras[rest[0]] = (self.end, rest[1]) if rest[1] is not None else None
            self.end += rest[1] or 0
        elif kind == "tried":
            record = self.records[rest[0]] = self._take(rest[1])
            self.kept += record.size if record.offset >= 0 else 0
        elif kind == "written":
            self.written[tuple(rest[0])] = self._take(rest[1])
        elif kind == "verified":
            self.verified.add(tuple(rest[0]))
        elif kind == "lost":
            self._lose(rest[0], rest[1])
        elif kind == "failed":
            self.failure = rest[0]

    def _take(self, fields: List[Any]) -> Record:
        record = groups.record_from(fields)
        self.end = max(self.end, record.offset + record.size, sum(record.shared_ids))
        return record

    def _lose(self, name: str, reason: str) -> None:
        self.records.pop(name, None)
        if self.source(name) is not None and name not in self.source_only:
            self.source_only[name] = reason
        else:
            self.source_only.pop(name, None)
            self.lost[name] = reason

    def attribute_failure(self, ending: WorkerEnd) -> List[Event]:
        """The events that follow from the end of a worker: what it was working on is lost."""
        stage, name = self.progress.at() or ("", "")
        if self.failure:
            ending, self.failure = WorkerEnd("failed (%s)" % self.failure, is_late=False), ""
        if stage == "extra":
            return [["extra", name, None]]
        if stage == "load":
            return [["lost", name, "it could be saved, but not loaded: loading it %s" % ending.words]]
        events: List[Event] = [["lost", name, "saving it %s" % ending.words]]
        return events + self._skip_class_of(name) if ending.is_late else events

    def _skip_class_of(self, name: str) -> List[Event]:
        """If two objects of a class from a cell have hung, gives up all others, which would probably hang too."""
        # Compares classes by id, so that no code of a metaclass runs in this process.
        kind = type(self.values.get(name))
        self._hung[id(kind)] = self._hung.get(id(kind), 0) + 1
        if self._hung[id(kind)] < 2 or module_name(kind) != "__main__":
            return []
        reason = "it was not tried: two others of its class hung when they were saved"
        alike = [other for other in self.values if type(self.values[other]) is kind and other not in self.records]
        return [["lost", other, reason] for other in alike]

    def source(self, name: str) -> Optional[Dict[str, Any]]:
        found: Optional[Dict[str, Any]] = self.facts.get(name, {}).get("source")
        return found

    def is_definition(self, name: str) -> bool:
        return "place" in self.facts.get(name, ())

    def definitions(self) -> List[str]:
        """The definitions that are not lost, in the order in which they were written."""
        found = [name for name in self.facts if self.is_definition(name) and name not in self.lost]
        return sorted(found, key=lambda name: self.facts[name]["place"])

    def pickled(self) -> List[str]:
        """The variables that are pickled: definitions first, last results last."""
        definitions = [name for name in self.definitions() if name not in self.source_only]
        values = [name for name, facts in self.facts.items() if not facts and name not in self.lost]
        return [*definitions, *sorted(values, key=LAST_RESULTS.__contains__)]

    def imports(self) -> List[str]:
        return [name for name, facts in self.facts.items() if "module" in facts and name not in self.lost]

    def groups(self) -> List[Group]:
        """In load order. A definition that is saved as source is a group by itself and refers to nothing."""
        names = [*self.definitions(), *self.pickled()]
        records = {name: self.record(name) for name in names if self.is_known(name)}
        return groups.group(records, {id(self.values[name]): name for name in reversed(list(records))})

    def is_known(self, name: str) -> bool:
        return name in self.records or name in self.source_only

    def record(self, name: str) -> Record:
        return _FROM_SOURCE if name in self.source_only else self.records[name]

    def is_source(self, group: Group) -> bool:
        return group.names[0] in self.source_only

    def form(self, group: Group) -> Optional[Record]:
        """The record of a group's pickle, or None if the pickle is not written yet."""
        record = self.written.get(group.names)
        if record is None and len(group.names) == 1 and not group.linked:
            record = self.record(group.names[0])
        return record if record is not None and record.offset >= 0 else None


# Its size is counted with the facts of the variable.
_FROM_SOURCE = Record(offset=0, size=0, has_code=True, needs=[], files=[], shares=[], sharers=[], shared_ids=(0, 0))


def next_losses(plan: Plan, groups: List[Group]) -> List[Event]:
    """The next variables to give up, with reasons. Afterwards, groups must be made and checked again."""
    for find in (_without_needs(plan), _unlinkable(plan), _over_cap(plan, groups)):
        found = dict(find)
        if found:
            return [["lost", name, reason] for name, reason in found.items()]
    return []


def _without_needs(plan: Plan) -> Iterator[Tuple[str, str]]:
    for name, record in plan.records.items():
        for need in record.needs:
            if need in plan.lost:
                yield name, "it needs %r, which could not be saved: %s" % (need, plan.lost[need])
                break


def _unlinkable(plan: Plan) -> Iterator[Tuple[str, str]]:
    for name, others in groups.unlinkable(plan.records):
        with_whom = ", ".join(map(repr, others)) or "another array in it"
        yield name, "it shares memory with %s, which only plain numpy arrays can restore" % with_whom


def _over_cap(plan: Plan, groups: List[Group]) -> Iterator[Tuple[str, str]]:
    """Takes the smallest groups first. If one does not fit, gives up its largest variable, so that the others may fit."""
    sizes: Dict[Group, int] = {group: _size(plan, group) for group in groups}
    taken = _fixed_bytes(plan)
    for group in sorted(groups, key=lambda group: sizes[group]):
        taken += sizes[group]
        if taken > plan.limit_bytes:
            own = {name: plan.record(name).size for name in group.names}
            name = max(own, key=lambda name: (own[name], name in LAST_RESULTS))
            figures = megabytes(own[name]), megabytes(plan.limit_bytes)
            yield name, "over the size limit: it takes %s, and a checkpoint has at most %s" % figures


def _size(plan: Plan, group: Group) -> int:
    """The size of the group's pickle or, before it is written, of its largest variable."""
    form = plan.form(group)
    return form.size if form is not None else max(plan.record(name).size for name in group.names)


def _fixed_bytes(plan: Plan) -> int:
    extras = sum(place[1] for place in plan.extras.values() if place is not None)
    return extras + sum(len(json.dumps(facts)) for facts in plan.facts.values() if facts)


def megabytes(count: int) -> str:
    return "%.1f MB" % (count / (1 << 20))
