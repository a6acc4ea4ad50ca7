"""Loads segments into a namespace. If a segment cannot be read, the others are still loaded."""

from __future__ import annotations

import io
import json
import pickle
import sys
import warnings
from importlib import import_module
from typing import Any, BinaryIO, Callable, Container, Dict, Iterable, List, Optional, Tuple

from . import definitions, process_state, unsaveable
from .variables import LAST_RESULTS, is_saved, shorten_reason

# Modules that newer versions have moved, and their old names.
_MOVED = {"pathlib._local": "pathlib", "numpy._core": "numpy.core"}


class Missing(Exception):
    """The segment refers to a variable that is not loaded (yet)."""

    def __init__(self, name: str) -> None:
        super().__init__("it needs %r, which could not be restored" % name)


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: BinaryIO, namespace: Dict[str, Any]) -> None:
        super().__init__(file)
        self._namespace = namespace

    def persistent_load(self, reference: Tuple[str, ...]) -> Any:
        kind = reference[0]
        if kind == "namespace":
            return self._namespace
        if kind == "main":
            return sys.modules["__main__"]
        if kind == "globals":
            return vars(import_module(reference[1]))
        if kind == "name":
            return self._named(reference[1])
        raise pickle.UnpicklingError("unknown reference of kind %r" % kind)

    def find_class(self, module: str, name: str) -> Any:
        if module == "__main__":
            return self._named(name)
        try:
            return super().find_class(module, name)
        except ModuleNotFoundError:
            for new, old in _MOVED.items():
                if module == new or module.startswith(new + "."):
                    return super().find_class(old + module[len(new) :], name)
            raise

    def _named(self, path: str) -> Any:
        first, *rest = path.split(".")
        try:
            found = self._namespace[first]
        except KeyError:
            raise Missing(first) from None
        for part in rest:
            found = getattr(found, part)
        return found


def read_pickles(
    file: BinaryIO, names: Iterable[str], namespace: Dict[str, Any], on_begin: Callable[[str], None] = lambda name: None
) -> Dict[str, Any]:
    """Reads the values of `names`, one after the other. Calls `on_begin` before each."""
    builtins = namespace.get("__builtins__")
    unpickler = _Unpickler(file, namespace)
    values: Dict[str, Any] = {}
    try:
        for name in names:
            on_begin(name)
            values[name] = unpickler.load()
    finally:
        # cloudpickle replaces these whenever it creates a function.
        if builtins is not None:
            namespace["__builtins__"] = builtins
    return values


_Segment = Tuple[Dict[str, Any], Any]


def load(
    namespace: Dict[str, Any], segments: Iterable[_Segment], *, python: str, ignore: Container[str] = ()
) -> Dict[str, Any]:
    """Replaces the variables of `namespace`, except those in `ignore`, by those of the segments.

    `python` is the version that saved them. Returns `restored` (names), `lost` (name and reason), `sources` (the restored
    names that were defined again from source), and `cells` (texts by file name, for tracebacks).
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
        "lost": [{"name": name, "reason": shorten_reason(loader.reasons[name])} for name in lost],
        "sources": [name for name, kind in loader.restored.items() if kind == "source"],
        "cells": loader.cells,
    }


class _Loader:
    def __init__(self, namespace: Dict[str, Any], python: str) -> None:
        self._namespace = namespace
        self._python = python.split(".")[:2]
        self._waiting: List[_Segment] = []
        # By name: the kind of the segment that it was loaded from.
        self.restored: Dict[str, str] = {}
        # By name: why the last attempt to load it failed.
        self.reasons: Dict[str, str] = {}
        self.cells: Dict[str, str] = {}

    def take(self, header: Dict[str, Any], data: Any) -> None:
        """Loads a segment. If it needs a variable that is missing, `finish` tries again."""
        error = self._try(header, data)
        if isinstance(error, (Missing, NameError)):
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
            return None  # a source whose code has been loaded
        try:
            values = self._read(header, data)
        except BaseException as error:
            for name in names:
                self.reasons[name] = str(error) if isinstance(error, _PLAIN) else unsaveable.describe_error(error)
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
            return read_pickles(io.BytesIO(data), header["names"], self._namespace)
        if kind == "random":
            process_state.set_random_states(data)
            return {}
        content = json.loads(bytes(data))
        if kind == "import":
            return {name: process_state.import_again(content) for name in header["names"]}
        if kind == "source":
            return {name: definitions.define(content, self._namespace) for name in header["names"]}
        if kind == "cwd":
            process_state.enter_folder(content)
        elif kind == "cells":
            self.cells.update(content)
        else:
            raise _Unreadable("it was saved in a format (%r) that this version does not know" % kind)
        return {}


class _Unreadable(Exception):
    """Its message says why a segment cannot be read."""


_PLAIN = (_Unreadable, Missing)
