"""Objects that pickle refuses, copies or takes for something else, each saved as what it is."""

from __future__ import annotations

import _thread
import gc
import sys
import weakref
from collections import OrderedDict
from types import CellType, MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, Callable, Dict, Tuple

from . import rebuild
from .live import Unsaveable
from .scene import CACHED, is_known_module

if TYPE_CHECKING:
    from .pickling import Hooks

_STREAMS = ("stdin", "stdout", "stderr")


def _module(_: "Hooks", value: Any) -> Any:
    if not is_known_module(value):
        raise Unsaveable("a module that no import gives back (%r)" % value.__name__, value)
    return rebuild.module, (value.__name__,)


def _cell(pickler: "Hooks", value: Any) -> Any:
    pickler.has_code = True
    try:
        contents: Any = (value.cell_contents,)
    except ValueError:
        contents = None  # nothing is in it yet
    return rebuild.cell, (), contents, None, None, rebuild.fill


def _lock(_: "Hooks", value: Any) -> Any:
    if value.locked():
        raise Unsaveable("a lock that is held", value)
    return rebuild.lock, ()


def _rlock(_: "Hooks", value: Any) -> Any:
    if value._is_owned() or not value.acquire(blocking=False):
        raise Unsaveable("a lock that is held", value)
    value.release()
    return rebuild.rlock, ()


def _cached(_: "Hooks", value: Any) -> Any:
    return rebuild.cached, (value.__wrapped__, value.cache_parameters())


def _proxy(_: "Hooks", value: Any) -> Any:
    return rebuild.proxy, (_target(value, dict(value)),)


def _dict_view(method: str) -> Callable[["Hooks", Any], Any]:
    def reduce(_: "Hooks", value: Any) -> Any:
        return rebuild.dict_view, (_target(value, {}), method)

    return reduce


def _target(value: Any, otherwise: Dict[Any, Any]) -> Any:
    """The dict behind a view or proxy, which only the garbage collector tells."""
    found = [held for held in gc.get_referents(value) if isinstance(held, dict)]
    return found[0] if found else otherwise


def _weak_dict(_: "Hooks", value: Any) -> Any:
    return type(value), (dict(value),)


def is_stream(value: Any) -> bool:
    """One of the three that every process has."""
    return any(value is getattr(sys, name, None) for name in _STREAMS)


def _stream(_: "Hooks", value: Any) -> Any:
    for name in _STREAMS:
        if value is getattr(sys, name, None):
            return rebuild.stream, (name,)
    return NotImplemented  # another of the same type


def _sentinel(_: "Hooks", value: Any) -> Any:
    for name, found in vars(sys.modules["dataclasses"]).items():
        if found is value:
            return rebuild.attribute, ("dataclasses", name)
    return NotImplemented


_BY_TYPE: Dict[type, Callable[["Hooks", Any], Any]] = {
    ModuleType: _module,
    CellType: _cell,
    _thread.LockType: _lock,
    _thread.RLock: _rlock,
    CACHED: _cached,
    MappingProxyType: _proxy,
    weakref.WeakValueDictionary: _weak_dict,
    weakref.WeakKeyDictionary: _weak_dict,
}
_DICTS: Tuple[Dict[Any, Any], ...] = ({}, OrderedDict())
for _plain in _DICTS:
    _BY_TYPE[type(_plain.keys())] = _dict_view("keys")
    _BY_TYPE[type(_plain.values())] = _dict_view("values")
    _BY_TYPE[type(_plain.items())] = _dict_view("items")
_SENTINELS = ("_MISSING_TYPE", "_FIELD_BASE", "_HAS_DEFAULT_FACTORY_CLASS", "_KW_ONLY_TYPE")


def reducer_for(kind: type) -> Any:
    """How objects of this type are saved; None where the pickler below knows it."""
    if issubclass(kind, ModuleType):
        return _module
    if kind.__module__ == "dataclasses" and kind.__name__ in _SENTINELS:
        return _sentinel
    if kind in _BY_TYPE:
        return _BY_TYPE[kind]
    return _stream if any(kind is type(getattr(sys, name, None)) for name in _STREAMS) else None
