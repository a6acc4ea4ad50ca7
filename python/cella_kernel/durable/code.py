"""Functions and classes by value, with cloudpickle; without it they are refused, and come back from their sources.

A function's globals are the namespace itself, its cells are shared with the functions that it shares them with, and a
class is made anew whenever it is loaded.
"""

from __future__ import annotations

import sys
from types import FunctionType
from typing import TYPE_CHECKING, Any, Dict, Optional
from weakref import WeakKeyDictionary

from .live import Unsaveable
from .scene import module_name

if TYPE_CHECKING:
    from .pickling import Hooks

_MAKES_CLASS = "_make_skeleton_class"
_MAKERS = (_MAKES_CLASS, "_make_skeleton_enum")


def reduce_function(pickler: "Hooks", function: FunctionType) -> Any:
    space = function.__globals__
    module = _module_of(space)
    if module is not None:
        pickler.module_globals[id(space)] = module
        pickler.globals_ref[id(space)] = space
    if id(space) in pickler.globals_ref:
        _ask_for_no_globals(function)
    reduced = pickler.by_value(function)
    if reduced is NotImplemented:
        return _by_reference(function)
    _note_code(pickler, function)
    make, (code, base, name, defaults, _), (attributes, slots), *rest = reduced
    slots = dict(slots)
    # cloudpickle would give each function cells of its own; these are made once, and filled once.
    slots["__closure__"] = None
    if base is space:
        # Names travel as names of their own, and with them the modules that they stand for.
        slots["__globals__"] = {}
        slots["_cloudpickle_submodules"] = []
    else:
        # A dict that cloudpickle makes for the functions of one pickle: those that share it must share the pickle.
        pickler.seen.append(space)
    return (make, (code, base, name, defaults, function.__closure__), (attributes, slots), *rest)


def reduce_class(pickler: "Hooks", cls: type) -> Any:
    reduced = pickler.by_value(cls)
    if reduced is NotImplemented:
        return _by_reference(cls)
    make, arguments, *rest = reduced
    if getattr(make, "__name__", "") not in _MAKERS:
        return reduced  # one of the interpreter's own, by name
    pickler.has_code = True
    pickler.seen.append(cls)
    # The last but one is an identity by which a class that is already there would be found, and changed.
    arguments = (*arguments[:-2], None, arguments[-1])
    if make.__name__ == _MAKES_CLASS:
        # What must be known when a class is made, or else is not, or is taken from its base.
        given = {name: vars(cls)[name] for name in ("__module__", "__slots__") if name in vars(cls)}
        given["__qualname__"] = cls.__qualname__
        arguments = (*arguments[:3], {**arguments[3], **given}, *arguments[4:])
    return (make, arguments, *rest)


def _note_code(pickler: "Hooks", function: FunctionType) -> None:
    pickler.has_code = True
    pickler.files.add(function.__code__.co_filename)
    pickler.seen.append(function)


def _ask_for_no_globals(function: FunctionType) -> None:
    """cloudpickle takes a function's code apart for the globals it uses, which takes long and is not needed here."""
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
    """The module whose globals these are, where an import gives it back."""
    name = space.get("__name__")
    module = sys.modules.get(name) if type(name) is str and name != "__main__" else None
    known = module is not None and getattr(module, "__dict__", None) is space and module.__spec__ is not None
    return name if known else None
