"""Pickles one name, or a group with one memo, into the store, and says what the pickle is like."""

from __future__ import annotations

from array import array
from typing import Any, Iterable, List, Sequence, Tuple

from . import arrays, bonds, live, pickling, sharing
from .bonds import Bonds
from .choosing import megabytes
from .extracting import Cells
from .plan import Plan
from .scene import Scene
from .store import Sink, Store, TooLarge
from .workers import Event, Report


class Surveyor:
    def __init__(self, plan: Plan, store: Store, scene: Scene, cells: Cells, report: Report) -> None:
        self._plan = plan
        self._store = store
        self._scene = scene
        self._cells = cells
        self._report = report
        self._bonds = Bonds()
        for name, record in plan.records.items():
            self._bonds.add(name, *bonds.unpack(store.reader(*record.bonds).read()))

    def survey(self, name: str) -> None:
        """No more is kept than a checkpoint may hold; the rest is counted."""
        sink, pickler, event = self._pickle((name,), (), self._plan.limit_bytes - self._plan.kept)
        if pickler is not None:
            event = ["surveyed", name, [*self._fields(sink, pickler), *self._tie(name, pickler, sink)]]
        self._report(event)

    def write(self, names: Sequence[str], linked: Iterable[int]) -> None:
        sink, pickler, event = self._pickle(names, linked, self._plan.limit_bytes)
        if pickler is not None:
            event = ["written", list(names), [*self._fields(sink, pickler), [], [], [0, 0]]]
        self._report(event)

    def _pickle(self, names: Sequence[str], linked: Iterable[int], room: int) -> Tuple[Sink, Any, Event]:
        """The pickler, or None and the event of the name that could not be pickled."""
        plan = self._plan
        sink = Sink(self._store, plan.end, room, plan.limit_bytes)
        name = names[0]
        try:
            pickler = pickling.pickler(sink, self._scene, frozenset(names), frozenset(linked))
            for name in names:
                plan.progress.turn_to("save", name)
                pickler.dump(plan.values[name])
            pickler.clear_memo()
            return sink, pickler, []
        except TooLarge:
            sizes = megabytes(sink.size), megabytes(plan.limit_bytes)
            return sink, None, ["lost", name, "over the size cap: it takes at least %s, and %s are all" % sizes]
        except BaseException as error:
            return sink, None, ["lost", name, live.reason(error, plan.values[name])]

    def _fields(self, sink: Sink, pickler: Any) -> List[Any]:
        offset = self._plan.end if sink.kept else -1 - sink.size
        needs = sorted(pickler.needs - self._scene.hosts)
        return [offset, sink.size, pickler.has_code, needs, sorted(pickler.files.intersection(self._cells.texts))]

    def _tie(self, name: str, pickler: Any, sink: Sink) -> List[Any]:
        shared = sharing.held_twice(pickler.seen)
        owners = [value for value in shared if arrays.has_memory(type(value)) and arrays.owner_of(value) is value]
        stretches = arrays.stretches([*pickler.views, *zip(owners, owners)])
        identities = array("Q", sorted(set(map(id, shared))))
        # Their identities stay their own as long as they live.
        self._scene.kept += shared
        self._scene.kept += pickler.views
        data = bonds.pack(identities, stretches)
        place = self._plan.end + (sink.size if sink.kept else 0)
        self._store.write(place, memoryview(data))
        return [*self._bonds.add(name, identities, stretches), [place, len(data)]]
