"""Gives out a finished plan as segments, in load order."""

from __future__ import annotations

import json
import sys
from typing import Any, Callable, Dict, List, Mapping, Set

from .grouping import Group
from .names import LAST_RESULTS, brief
from .plan import Plan
from .store import Store

Emit = Callable[[Dict[str, Any], Any], None]


class Emission:
    def __init__(self, plan: Plan, store: Store, cells: Mapping[str, str], emit: Emit) -> None:
        self._plan = plan
        self._store = store
        self._cells = cells
        self._emit = emit
        self._bytes = 0
        self._saved: Set[str] = set()
        self._files: Set[str] = set()

    def run(self, groups: List[Group], left_out: Mapping[str, str]) -> Dict[str, Any]:
        plan = self._plan
        self._put_extra("cwd", portable=True)
        for name in plan.imports():
            self._save_json("import", name, plan.facts[name]["module"])
        for group in groups:
            self._put_group(group)
        self._put_cells()
        # Last, as what is loaded before it may draw numbers.
        self._put_extra("random", portable=False)
        shown = [name for name in plan.values if name in plan.lost and name not in LAST_RESULTS]
        return {
            "saved": [name for name in plan.values if name in self._saved],
            "lost": [
                *({"name": name, "reason": reason} for name, reason in left_out.items()),
                *({"name": name, "reason": brief(plan.lost[name])} for name in shown),
            ],
            "sources": [{"name": name, "reason": reason} for name, reason in plan.source_only.items()],
            "python": "%d.%d.%d" % sys.version_info[:3],
        }

    def _put_group(self, group: Group) -> None:
        plan = self._plan
        form = plan.form(group)
        assert form is not None, "a plan is finished when every group is written"
        if not plan.is_source(group):
            self._files.update(form.files)
            header = {"kind": "pickle", "names": list(group.names), "portable": not form.has_code}
            self._bytes += form.size
            self._store.read(form.offset, form.size, lambda data: self._emit(header, data))
            self._saved.update(group.names)
        for name in group.names:
            source = plan.source(name)
            if source is not None:
                self._files.add(source["file"])
                self._save_json("source", name, source)

    def _save_json(self, kind: str, name: str, content: Any) -> None:
        if self._put_json({"kind": kind, "names": [name], "portable": True}, content):
            self._saved.add(name)
        elif name not in self._saved:
            self._plan.apply(["lost", name, "over the size cap"])

    def _put_cells(self) -> None:
        """As many as there is room for: a traceback without its lines is still one."""
        texts: Dict[str, str] = {}
        room = self._plan.limit_bytes - self._bytes - 2
        for file in self._cells:
            if file in self._files:
                room -= len(json.dumps({file: self._cells[file]}))
                if room >= 0:
                    texts[file] = self._cells[file]
        if texts:
            self._put_json({"kind": "cells", "names": [], "portable": True}, texts)

    def _put_extra(self, kind: str, portable: bool) -> None:
        place = self._plan.extras.get(kind)
        if place is not None and self._bytes + place[1] <= self._plan.limit_bytes:
            self._bytes += place[1]
            header = {"kind": kind, "names": [], "portable": portable}
            self._store.read(*place, lambda data: self._emit(header, data))

    def _put_json(self, header: Dict[str, Any], content: Any) -> bool:
        data = json.dumps(content).encode()
        if self._bytes + len(data) > self._plan.limit_bytes:
            return False
        self._bytes += len(data)
        self._emit(header, data)
        return True
