"""What is known of a save so far. Each piece is an event, so that it outlives the worker that found it out."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Set, Tuple

from . import grouping
from .grouping import Group, Names, Record
from .names import LAST_RESULTS
from .progress import Progress
from .scene import module_name
from .workers import Ending, Event

# Segments that bring no names.
EXTRAS = ("cwd", "random")


class Plan:
    def __init__(self, values: Dict[str, Any], limit_bytes: int) -> None:
        self.values = values
        self.limit_bytes = limit_bytes
        self.progress = Progress([*values, *EXTRAS])
        self.failure = ""
        # Bytes of pickles that are kept from the first look at each name.
        self.kept = 0
        # Bytes of the store that are taken.
        self.end = 0
        # By name: what it is (a module, a definition with its source, or neither), and what its pickle is like.
        self.facts: Dict[str, Dict[str, Any]] = {}
        self.records: Dict[str, Record] = {}
        self.lost: Dict[str, str] = {}
        # Why a definition comes back from its source alone.
        self.source_only: Dict[str, str] = {}
        # By kind: segments that bring no names. None where one could not be made.
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
        elif kind == "surveyed":
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
        record = grouping.record_from(fields)
        self.end = max(self.end, record.offset + record.size, sum(record.bonds))
        return record

    def _lose(self, name: str, reason: str) -> None:
        self.records.pop(name, None)
        if self.source(name) is not None and name not in self.source_only:
            self.source_only[name] = reason
        else:
            self.source_only.pop(name, None)
            self.lost[name] = reason

    def blame(self, ending: Ending) -> List[Event]:
        """The events that a worker's end stands for: what it was at could not be done."""
        stage, name = self.progress.at() or ("", "")
        if self.failure:
            ending, self.failure = Ending("failed (%s)" % self.failure, is_late=False), ""
        if stage == "extra":
            return [["extra", name, None]]
        if stage == "load":
            return [["lost", name, "it could be saved, but not loaded: loading it %s" % ending.words]]
        events: List[Event] = [["lost", name, "saving it %s" % ending.words]]
        return events + self._like_it(name) if ending.is_late else events

    def _like_it(self, name: str) -> List[Event]:
        """Where two objects of a class of cells have hung, all others of it would, and leave no time for the rest."""
        # By identity alone: in this process no metaclass may have a say.
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
        """Those that are not lost, in the order in which they were written."""
        found = [name for name in self.facts if self.is_definition(name) and name not in self.lost]
        return sorted(found, key=lambda name: self.facts[name]["place"])

    def pickled(self) -> List[str]:
        """The names that come back by a pickle, if they come back: definitions first, last results last."""
        definitions = [name for name in self.definitions() if name not in self.source_only]
        values = [name for name, facts in self.facts.items() if not facts and name not in self.lost]
        return [*definitions, *sorted(values, key=LAST_RESULTS.__contains__)]

    def imports(self) -> List[str]:
        return [name for name, facts in self.facts.items() if "module" in facts and name not in self.lost]

    def groups(self) -> List[Group]:
        """In load order. A definition that comes from its source is a group of its own, which refers to nothing."""
        names = [*self.definitions(), *self.pickled()]
        records = {name: self.record(name) for name in names if self.is_known(name)}
        return grouping.group(records, {id(self.values[name]): name for name in reversed(list(records))})

    def is_known(self, name: str) -> bool:
        return name in self.records or name in self.source_only

    def record(self, name: str) -> Record:
        return _FROM_SOURCE if name in self.source_only else self.records[name]

    def is_source(self, group: Group) -> bool:
        return group.names[0] in self.source_only

    def form(self, group: Group) -> Optional[Record]:
        """Where a group's pickle lies; None as long as there is none."""
        record = self.written.get(group.names)
        if record is None and len(group.names) == 1 and not group.linked:
            record = self.record(group.names[0])
        return record if record is not None and record.offset >= 0 else None


# Its size is counted with what is known of the name.
_FROM_SOURCE = Record(offset=0, size=0, has_code=True, needs=[], files=[], shares=[], parties=[], bonds=(0, 0))
