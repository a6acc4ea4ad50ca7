"""Reads a segment of pickles into a namespace that may not be the one of `__main__`."""

from __future__ import annotations

import pickle
import sys
from importlib import import_module
from typing import Any, BinaryIO, Callable, Dict, Iterable, Tuple


# Where newer versions keep what older ones know by another name.
_MOVED = {"pathlib._local": "pathlib", "numpy._core": "numpy.core"}


class Missing(Exception):
    """The segment refers to a name that is not there (yet)."""

    def __init__(self, name: str) -> None:
        super().__init__("it needs %r, which did not come back" % name)


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
        raise pickle.UnpicklingError("a reference of kind %r is not known" % kind)

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


def read(
    file: BinaryIO, names: Iterable[str], namespace: Dict[str, Any], turn_to: Callable[[str], None] = lambda name: None
) -> Dict[str, Any]:
    """The values of `names`, which lie one after the other and share what they shared."""
    builtins = namespace.get("__builtins__")
    unpickler = _Unpickler(file, namespace)
    values: Dict[str, Any] = {}
    try:
        for name in names:
            turn_to(name)
            values[name] = unpickler.load()
    finally:
        # cloudpickle sets these whenever it makes a function.
        if builtins is not None:
            namespace["__builtins__"] = builtins
    return values
