"""Loads segments into a namespace. Whatever one of them holds, the others come back."""

from __future__ import annotations

import io
import json
import sys
import warnings
from typing import Any, Container, Dict, Iterable, List, Optional, Tuple

from . import defining, live, surroundings, unpickling
from .names import LAST_RESULTS, brief, is_saved

Segment = Tuple[Dict[str, Any], Any]


def load(
    namespace: Dict[str, Any], segments: Iterable[Segment], *, python: str, ignore: Container[str] = ()
) -> Dict[str, Any]:
    """Replaces the names of `namespace`, except those in `ignore`, by those of the segments, which come in load order.

    `python` is the version that saved them. Returns `restored` (names), `lost` (name and reason), `sources` (those of
    the restored that were defined again from their source), and `cells` (texts by file name, for tracebacks).
    """
    for name in [name for name in namespace if is_saved(name) and name not in ignore]:
        namespace.pop(name, None)
    loader = _Loader(namespace, python)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for header, data in segments:
            loader.take(header, data)
        loader.finish()
    lost = [name for name in loader.reasons if name not in loader.restored and name not in LAST_RESULTS]
    return {
        "restored": list(loader.restored),
        "lost": [{"name": name, "reason": brief(loader.reasons[name])} for name in lost],
        "sources": [name for name, kind in loader.restored.items() if kind == "source"],
        "cells": loader.cells,
    }


class _Loader:
    def __init__(self, namespace: Dict[str, Any], python: str) -> None:
        self._namespace = namespace
        self._python = python.split(".")[:2]
        self._waiting: List[Segment] = []
        # By name, the kind of the segment that it came from.
        self.restored: Dict[str, str] = {}
        # By name, why it could not be loaded at first.
        self.reasons: Dict[str, str] = {}
        self.cells: Dict[str, str] = {}

    def take(self, header: Dict[str, Any], data: Any) -> None:
        """What needs a name that is not there yet is kept until all others are."""
        error = self._try(header, data)
        if isinstance(error, (unpickling.Missing, NameError)):
            self._waiting.append((header, bytes(data)))

    def finish(self) -> None:
        while True:
            waiting, self._waiting = self._waiting, []
            for header, data in waiting:
                self.take(header, data)
            if len(self._waiting) == len(waiting):
                return

    def _try(self, header: Dict[str, Any], data: Any) -> Optional[BaseException]:
        names = [name for name in header["names"] if name not in self.restored]
        if header["names"] and not names:
            return None  # a source of what has been loaded as code
        try:
            values = self._read(header, data)
        except BaseException as error:
            for name in names:
                self.reasons[name] = str(error) if isinstance(error, _PLAIN) else live.brief(error)
            return error
        self._namespace.update(values)
        self.restored.update(dict.fromkeys(values, header["kind"]))
        return None

    def _read(self, header: Dict[str, Any], data: Any) -> Dict[str, Any]:
        kind = header["kind"]
        here = list(map(str, sys.version_info[:2]))
        if not header["portable"] and self._python != here:
            versions = ".".join(self._python), ".".join(here)
            raise _Unreadable("it was saved as code of Python %s, and this is Python %s" % versions)
        if kind == "pickle":
            return unpickling.read(io.BytesIO(data), header["names"], self._namespace)
        if kind == "random":
            surroundings.set_random_states(data)
            return {}
        content = json.loads(bytes(data))
        if kind == "import":
            return {name: surroundings.import_again(content) for name in header["names"]}
        if kind == "source":
            return {name: defining.define(content, self._namespace) for name in header["names"]}
        if kind == "cwd":
            surroundings.enter_folder(content)
        elif kind == "cells":
            self.cells.update(content)
        else:
            raise _Unreadable("it was saved in a way (%r) that this version does not know" % kind)
        return {}


class _Unreadable(Exception):
    """Says of itself why a segment cannot be read."""


_PLAIN = (_Unreadable, unpickling.Missing)
