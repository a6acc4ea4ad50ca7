"""Tries each variable in the worker: pickles it into the store, and loads it again. What does not load is not saved.

Loaded copies are kept, so that their finalizers do not run: a copy must not delete the files of the original. Only large
data without classes of the namespace is freed.
"""

from __future__ import annotations

import builtins
from array import array
from typing import Any, Dict, Iterable, List, Optional, Sequence, Set, Tuple

from . import definitions, load, sharing, unsaveable
from .definitions import CellTexts
from .groups import Group, Names
from .pickler import make_pickler
from .plan import Plan, megabytes
from .segments import Sink, Store, TooLarge
from .sharing import SharedObjects
from .variables import NamedObjects
from .worker import Event, Report


class TrialPickler:
    def __init__(self, plan: Plan, store: Store, named_objects: NamedObjects, cells: CellTexts, report: Report) -> None:
        self._plan = plan
        self._store = store
        self._named_objects = named_objects
        self._cells = cells
        self._report = report
        self._shared = SharedObjects()
        for name, record in plan.records.items():
            self._shared.add(name, *sharing.unpack_shared(store.reader(*record.shared_ids).read()))

    def try_variable(self, name: str) -> None:
        """Pickles a variable. Keeps pickles up to the size limit of the checkpoint, and only measures the others."""
        sink, pickler, event = self._pickle((name,), (), self._plan.limit_bytes - self._plan.kept)
        if pickler is not None:
            event = ["tried", name, [*self._fields(sink, pickler), *self._sharing_fields(name, pickler, sink)]]
        self._report(event)

    def write(self, names: Sequence[str], linked: Iterable[int]) -> None:
        sink, pickler, event = self._pickle(names, linked, self._plan.limit_bytes)
        if pickler is not None:
            event = ["written", list(names), [*self._fields(sink, pickler), [], [], [0, 0]]]
        self._report(event)

    def _pickle(self, names: Sequence[str], linked: Iterable[int], room: int) -> Tuple[Sink, Any, Event]:
        """The pickler, or None and the event for the variable that could not be pickled."""
        plan = self._plan
        sink = Sink(self._store, plan.end, room, plan.limit_bytes)
        name = names[0]
        try:
            pickler = make_pickler(sink, self._named_objects, frozenset(names), frozenset(linked))
            for name in names:
                plan.progress.begin("save", name)
                pickler.dump(plan.values[name])
            pickler.clear_memo()
            return sink, pickler, []
        except TooLarge:
            sizes = megabytes(sink.size), megabytes(plan.limit_bytes)
            return sink, None, ["lost", name, "over the size limit: it takes at least %s, and a checkpoint has at most %s" % sizes]
        except BaseException as error:
            return sink, None, ["lost", name, unsaveable.reason(error, plan.values[name])]

    def _fields(self, sink: Sink, pickler: Any) -> List[Any]:
        offset = self._plan.end if sink.kept else -1 - sink.size
        needs = sorted(pickler.needs - self._named_objects.hosts)
        return [offset, sink.size, pickler.has_code, needs, sorted(pickler.files.intersection(self._cells.texts))]

    def _sharing_fields(self, name: str, pickler: Any, sink: Sink) -> List[Any]:
        shared = sharing.held_twice(pickler.seen)
        owners = [value for value in shared if sharing.has_memory(type(value)) and sharing.owner_of(value) is value]
        ranges = sharing.memory_ranges([*pickler.views, *zip(owners, owners)])
        identities = array("Q", sorted(set(map(id, shared))))
        # Kept alive, so that no other objects get their ids.
        self._named_objects.kept += shared
        self._named_objects.kept += pickler.views
        data = sharing.pack_shared(identities, ranges)
        place = self._plan.end + (sink.size if sink.kept else 0)
        self._store.write(place, memoryview(data))
        return [*self._shared.add(name, identities, ranges), [place, len(data)]]


_LARGE = 8 << 20


class TrialLoader:
    def __init__(self, plan: Plan, store: Store, named_objects: NamedObjects, report: Report) -> None:
        self._plan = plan
        self._store = store
        self._report = report
        self._stage: Dict[str, Any] = {"__name__": "__main__", "__builtins__": builtins}
        for name in named_objects.hosts:
            self._stage[name] = named_objects.namespace.get(name)
        for name in plan.imports():
            self._stage[name] = plan.values[name]
        self._loaded: Set[Names] = set()
        self._kept: List[Dict[str, Any]] = []
        self._current = ""

    def verify(self, groups: List[Group]) -> bool:
        """Loads the groups. Returns False if a variable was lost: then groups must be made again."""
        needed = {name for group in groups for name in group.needs}
        waiting = groups
        while waiting:
            later: List[Tuple[Group, str, BaseException]] = []
            for group in waiting:
                # A group that waits may be a definition, which may need any variable.
                error = self._attempt(group, needed if not later else set(self._plan.values))
                if isinstance(error, (load.Missing, NameError)):
                    later.append((group, self._current, error))
                elif error is not None:
                    self._lose(self._current, error)
                    return False
            if len(later) == len(waiting):
                # Gives up the first: the others may wait for it, and it may be saved as source.
                self._lose(later[0][1], later[0][2])
                return False
            waiting = [group for group, _, _ in later]
        return True

    def _attempt(self, group: Group, needed: Set[str]) -> Optional[BaseException]:
        names = group.names
        can_free = self._can_free(group) and not needed.intersection(names)
        # A group that an earlier worker has verified is loaded again, unless nothing can refer to it.
        if names in self._loaded or (names in self._plan.verified and can_free):
            return None
        try:
            values = self._load(group)
        except BaseException as error:
            return error
        if not can_free:
            self._stage.update(values)
            self._kept.append(values)
        del values
        self._loaded.add(names)
        self._report(["verified", list(names)])
        return None

    def _load(self, group: Group) -> Dict[str, Any]:
        name = group.names[0]
        if self._plan.is_source(group):
            self._begin(name)
            return {name: definitions.define(self._plan.source(name) or {}, self._stage)}
        form = self._plan.form(group)
        assert form is not None, "a group is written before it is verified"
        return load.read_pickles(self._store.reader(form.offset, form.size), group.names, self._stage, self._begin)

    def _begin(self, name: str) -> None:
        self._current = name
        self._plan.progress.begin("load", name)

    def _can_free(self, group: Group) -> bool:
        form = self._plan.form(group)
        return form is not None and form.size > _LARGE and not form.has_code and not group.needs

    def _lose(self, name: str, error: BaseException) -> None:
        self._report(["lost", name, "it could be saved, but not loaded: %s" % unsaveable.describe_error(error)])
