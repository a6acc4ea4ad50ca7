"""How to save objects that pickle refuses or saves wrongly: locks, cells, views, streams, functions and classes.

With cloudpickle, functions and classes are saved by value; without it, as source. After a load, a function's globals are
the namespace itself, and functions that shared closure cells share them again. Each load creates classes anew.
"""

from __future__ import annotations

import _thread
import gc
import sys
import weakref
from collections import OrderedDict
from types import CellType, FunctionType, MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any, Callable, Dict, Optional, Tuple
from weakref import WeakKeyDictionary

from . import rebuild
from .unsaveable import Unsaveable
from .variables import CACHED, is_known_module, module_name

if TYPE_CHECKING:
    from .pickler import Hooks

_STREAMS = ("stdin", "stdout", "stderr")


def _module(_: "Hooks", value: Any) -> Any:
    if not is_known_module(value):
        raise Unsaveable("a module that cannot be imported by its name (%r)" % value.__name__, value)
    return rebuild.module, (value.__name__,)


def _cell(pickler: "Hooks", value: Any) -> Any:
    pickler.has_code = True
    try:
        contents: Any = (value.cell_contents,)
    except ValueError:
        contents = None  # the cell is empty
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
    """The dict behind a view or proxy, which only the garbage collector can find."""
    found = [held for held in gc.get_referents(value) if isinstance(held, dict)]
    return found[0] if found else otherwise


def _weak_dict(_: "Hooks", value: Any) -> Any:
    return type(value), (dict(value),)


def is_stream(value: Any) -> bool:
    """Whether it is sys.stdin, sys.stdout or sys.stderr."""
    return any(value is getattr(sys, name, None) for name in _STREAMS)


def _stream(_: "Hooks", value: Any) -> Any:
    for name in _STREAMS:
        if value is getattr(sys, name, None):
            return rebuild.stream, (name,)
    return NotImplemented  # another stream of the same type


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
    """How to save objects of this type; None if the base pickler can."""
    if issubclass(kind, ModuleType):
        return _module
    if kind.__module__ == "dataclasses" and kind.__name__ in _SENTINELS:
        return _sentinel
    if kind in _BY_TYPE:
        return _BY_TYPE[kind]
    return _stream if any(kind is type(getattr(sys, name, None)) for name in _STREAMS) else None


_MAKES_CLASS = "_make_skeleton_class"
_MAKERS = (_MAKES_CLASS, "_make_skeleton_enum")


def reduce_function(pickler: "Hooks", function: FunctionType) -> Any:
    space = function.__globals__
    module = _module_of(space)
    if module is not None:
        pickler.module_globals[id(space)] = module
        pickler.globals_ref[id(space)] = space
    if id(space) in pickler.globals_ref:
        _skip_globals_search(function)
    reduced = pickler.by_value(function)
    if reduced is NotImplemented:
        return _by_reference(function)
    _note_code(pickler, function)
    make, (code, base, name, defaults, _), (attributes, slots), *rest = reduced
    slots = dict(slots)
    # cloudpickle would give each function its own closure cells. As an argument, each cell is created and filled once.
    slots["__closure__"] = None
    if base is space:
        # The variables are saved separately, and modules with them.
        slots["__globals__"] = {}
        slots["_cloudpickle_submodules"] = []
    else:
        # cloudpickle creates a new dict for the functions of one pickle: functions that share it must be in one pickle.
        pickler.seen.append(space)
    return (make, (code, base, name, defaults, function.__closure__), (attributes, slots), *rest)


def reduce_class(pickler: "Hooks", cls: type) -> Any:
    reduced = pickler.by_value(cls)
    if reduced is NotImplemented:
        return _by_reference(cls)
    make, arguments, *rest = reduced
    if getattr(make, "__name__", "") not in _MAKERS:
        return reduced  # saved by name
    pickler.has_code = True
    pickler.seen.append(cls)
    # The last argument but one is an id by which cloudpickle would find a present class and change it.
    arguments = (*arguments[:-2], None, arguments[-1])
    if make.__name__ == _MAKES_CLASS:
        # Attributes that only have their effect when the class is created, or would be inherited from its base.
        given = {name: vars(cls)[name] for name in ("__module__", "__slots__") if name in vars(cls)}
        given["__qualname__"] = cls.__qualname__
        arguments = (*arguments[:3], {**arguments[3], **given}, *arguments[4:])
    return (make, arguments, *rest)


def _note_code(pickler: "Hooks", function: FunctionType) -> None:
    pickler.has_code = True
    pickler.files.add(function.__code__.co_filename)
    pickler.seen.append(function)


def _skip_globals_search(function: FunctionType) -> None:
    """Keeps cloudpickle from searching the function's code for globals, which takes long and is not needed here."""
    known = getattr(sys.modules.get("cloudpickle.cloudpickle"), "_extract_code_globals_cache", None)
    if isinstance(known, WeakKeyDictionary):
        known.setdefault(function.__code__, {})


def _by_reference(value: Any) -> Any:
    if module_name(value) != "__main__":
        return NotImplemented
    what = "a class" if isinstance(value, type) else "a lambda" if value.__name__ == "<lambda>" else "a function"
    if what == "a function" and "<locals>" in value.__qualname__:
        what = "a closure" if value.__closure__ else "a function from inside another one"
    raise Unsaveable("%s (without cloudpickle)" % what, value)


def _module_of(space: Dict[str, Any]) -> Optional[str]:
    """The module that these globals belong to, if it can be imported by its name."""
    name = space.get("__name__")
    module = sys.modules.get(name) if type(name) is str and name != "__main__" else None
    known = module is not None and getattr(module, "__dict__", None) is space and module.__spec__ is not None
    return name if known else None
