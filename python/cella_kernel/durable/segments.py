"""The bytes of a checkpoint: the store, in shared memory, that workers write to, and the segments created from it."""

from __future__ import annotations

import io
import json
import mmap
import os
import pickle
import sys
import tempfile
from typing import Any, BinaryIO, Callable, Dict, List, Mapping, Set

from .groups import Group
from .plan import Plan
from .variables import LAST_RESULTS, shorten_reason

# Linux writes and reads no more than about twice this with one call.
_MOST_AT_ONCE = 1 << 30
# For more bytes than this, mapping is faster than copying.
_LARGE = 1 << 18


class TooLarge(Exception):
    """A pickle takes more than `limit` bytes."""


class Store:
    def __init__(self) -> None:
        if hasattr(os, "memfd_create"):
            self._fd = os.memfd_create("cella-checkpoint")
        else:
            with tempfile.TemporaryFile() as file:
                self._fd = os.dup(file.fileno())

    def write(self, offset: int, data: memoryview) -> None:
        while data:
            # With an explicit offset, as all forks share the position of the descriptor.
            count = os.pwrite(self._fd, data[:_MOST_AT_ONCE], offset)
            data = data[count:]
            offset += count

    def reader(self, offset: int, size: int) -> BinaryIO:
        if size < _LARGE:
            return io.BytesIO(os.pread(self._fd, size, offset))
        return io.BufferedReader(_Reader(self._fd, offset))

    def read(self, offset: int, size: int, use: Callable[[memoryview], None]) -> None:
        """Calls `use` with these bytes, which are valid only during the call. Many bytes are not copied."""
        if size < _LARGE:
            return use(memoryview(os.pread(self._fd, size, offset)))
        start = offset - offset % mmap.ALLOCATIONGRANULARITY
        with mmap.mmap(self._fd, offset - start + size, prot=mmap.PROT_READ, offset=start) as mapped:
            with memoryview(mapped) as whole, whole[offset - start :] as part:
                use(part)

    def close(self) -> None:
        os.close(self._fd)


class _Reader(io.RawIOBase):
    """Reads from an offset, with its own position."""

    def __init__(self, fd: int, offset: int) -> None:
        self._fd = fd
        self._offset = offset

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        room = memoryview(buffer)[:_MOST_AT_ONCE]
        if hasattr(os, "preadv"):
            count = os.preadv(self._fd, [room], self._offset)
        else:
            data = os.pread(self._fd, len(room), self._offset)
            count = len(data)
            room[:count] = data
        self._offset += count
        return count


class Sink:
    """The file that a pickler writes to. It counts all bytes, and stores them if there is room."""

    def __init__(self, store: Store, offset: int, room: int, limit: int) -> None:
        self._store = store
        self._offset = offset
        self._room = room
        self._limit = limit
        self.size = 0

    @property
    def kept(self) -> bool:
        return self.size <= self._room

    def write(self, data: Any) -> int:
        view = data.raw() if isinstance(data, pickle.PickleBuffer) else memoryview(data)
        start = self._offset + self.size
        self.size += view.nbytes
        if self.size > self._limit:
            raise TooLarge
        if self.kept:
            self._store.write(start, view)
        return view.nbytes


Emit = Callable[[Dict[str, Any], Any], None]


class SegmentWriter:
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
        # Last, as loading other segments may draw random numbers.
        self._put_extra("random", portable=False)
        shown = [name for name in plan.values if name in plan.lost and name not in LAST_RESULTS]
        return {
            "saved": [name for name in plan.values if name in self._saved],
            "lost": [
                *({"name": name, "reason": reason} for name, reason in left_out.items()),
                *({"name": name, "reason": shorten_reason(plan.lost[name])} for name in shown),
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
            self._plan.apply(["lost", name, "over the size limit"])

    def _put_cells(self) -> None:
        """Adds as many cells as fit. Tracebacks through other cells have no source lines."""
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
