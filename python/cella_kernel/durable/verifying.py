"""Loads what was written, in the worker, into a namespace of its own: what does not load is not saved.

What has been loaded stays, so that nothing of the code's runs at its end: a copy must not delete the original's files.
Only large data that no class of the namespace has a part in is let go.
"""

from __future__ import annotations

import builtins
from typing import Any, Dict, List, Optional, Set, Tuple

from . import defining, live, unpickling
from .grouping import Group, Names
from .plan import Plan
from .scene import Scene
from .store import Store
from .workers import Report

_LARGE = 8 << 20


class Verifier:
    def __init__(self, plan: Plan, store: Store, scene: Scene, report: Report) -> None:
        self._plan = plan
        self._store = store
        self._report = report
        self._stage: Dict[str, Any] = {"__name__": "__main__", "__builtins__": builtins}
        for name in scene.hosts:
            self._stage[name] = scene.namespace.get(name)
        for name in plan.imports():
            self._stage[name] = plan.values[name]
        self._loaded: Set[Names] = set()
        self._kept: List[Dict[str, Any]] = []
        self._current = ""

    def verify(self, groups: List[Group]) -> bool:
        """False where a name is lost by it: the groups are others, then."""
        needed = {name for group in groups for name in group.needs}
        waiting = groups
        while waiting:
            later: List[Tuple[Group, str, BaseException]] = []
            for group in waiting:
                # A definition that waits for its turn may need any of the names.
                error = self._attempt(group, needed if not later else set(self._plan.values))
                if isinstance(error, (unpickling.Missing, NameError)):
                    later.append((group, self._current, error))
                elif error is not None:
                    self._lose(self._current, error)
                    return False
            if len(later) == len(waiting):
                # The first: others may wait for it alone, and it may have a source.
                self._lose(later[0][1], later[0][2])
                return False
            waiting = [group for group, _, _ in later]
        return True

    def _attempt(self, group: Group, needed: Set[str]) -> Optional[BaseException]:
        names = group.names
        may_go = self._may_go(group) and not needed.intersection(names)
        # What an earlier worker has verified is loaded again where something may refer to it.
        if names in self._loaded or (names in self._plan.verified and may_go):
            return None
        try:
            values = self._load(group)
        except BaseException as error:
            return error
        if not may_go:
            self._stage.update(values)
            self._kept.append(values)
        del values
        self._loaded.add(names)
        self._report(["verified", list(names)])
        return None

    def _load(self, group: Group) -> Dict[str, Any]:
        name = group.names[0]
        if self._plan.is_source(group):
            self._turn_to(name)
            return {name: defining.define(self._plan.source(name) or {}, self._stage)}
        form = self._plan.form(group)
        assert form is not None, "a group is written before it is verified"
        return unpickling.read(self._store.reader(form.offset, form.size), group.names, self._stage, self._turn_to)

    def _turn_to(self, name: str) -> None:
        self._current = name
        self._plan.progress.turn_to("load", name)

    def _may_go(self, group: Group) -> bool:
        form = self._plan.form(group)
        return form is not None and form.size > _LARGE and not form.has_code and not group.needs

    def _lose(self, name: str, error: BaseException) -> None:
        self._report(["lost", name, "it could be saved, but not loaded: %s" % live.brief(error)])
