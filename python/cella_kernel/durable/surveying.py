"""Pickles one name, or a group with one memo, into the store, and says what the pickle is like."""

from __future__ import annotations

from typing import Any, Iterable, List, Sequence

from . import arrays, live, pickling, sharing
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

    def survey(self, name: str) -> None:
        """No more is kept than a checkpoint may hold; the rest is counted."""
        self._report(self._pickle((name,), (), self._plan.limit_bytes - self._plan.kept, ["surveyed", name]))

    def write(self, names: Sequence[str], linked: Iterable[int]) -> None:
        self._report(self._pickle(names, linked, self._plan.limit_bytes, ["written", list(names)]))

    def _pickle(self, names: Sequence[str], linked: Iterable[int], room: int, event: Event) -> Event:
        plan = self._plan
        sink = Sink(self._store, plan.end, room, plan.limit_bytes)
        name = names[0]
        try:
            pickler = pickling.pickler(sink, self._scene, frozenset(names), frozenset(linked))
            for name in names:
                plan.progress.turn_to("save", name)
                pickler.dump(plan.values[name])
            pickler.clear_memo()
            found = self._findings(pickler)
        except TooLarge:
            sizes = megabytes(sink.size), megabytes(plan.limit_bytes)
            return ["lost", name, "over the size cap: it takes at least %s, and %s are all" % sizes]
        except BaseException as error:
            return ["lost", name, live.reason(error, plan.values[name])]
        return [*event, [plan.end if sink.kept else -1 - sink.size, sink.size, *found]]

    def _findings(self, pickler: Any) -> List[Any]:
        shared = sharing.held_twice(pickler.seen)
        memory = {(id(owner), id(array), arrays.can_be_view(array)) for owner, array in pickler.views}
        memory |= {(id(item), id(item), True) for item in shared if arrays.owns_memory(item)}
        # Their identities stay their own as long as they live.
        self._scene.kept += shared
        self._scene.kept += pickler.views
        needs = sorted(pickler.needs - self._scene.hosts)
        files = sorted(pickler.files.intersection(self._cells.texts))
        return [pickler.has_code, needs, files, sorted(set(map(id, shared))), sorted(memory)]
