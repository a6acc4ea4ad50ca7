"""The pickler of a checkpoint: cloudpickle's if the interpreter has it, else the standard one, with hooks.

The hooks see each object: they replace variables by references, refuse objects that cannot be saved, and collect objects
that other variables may share.
"""

from __future__ import annotations

import pickle
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Callable, Container, Dict, List, Optional, Set, Tuple

from . import reducers, sharing
from .unsaveable import Unsaveable, describe, words_for
from .variables import NamedObjects, module_name

_Reference = Optional[Tuple[str, ...]]
_Visitor = Callable[["Hooks", Any], _Reference]
_PROTOCOL = 5


class Hooks:
    """The first base class of a pickler class. One pickler can dump several values, with one memo."""

    def __init__(self, file: Any, named_objects: NamedObjects, group: Container[str], linked: Container[int]) -> None:
        super().__init__(file, _PROTOCOL)  # type: ignore[call-arg]
        self._named_objects = named_objects
        self._group = group
        self._linked = linked
        # Results: variables that the values refer to, whether they contain code, and from which cells.
        self.needs: Set[str] = set()
        self.has_code = False
        self.files: Set[str] = set()
        # Results: objects that other variables may share, and arrays with the owner of their memory.
        self.seen: List[Any] = []
        self.views: List[Tuple[Any, Any]] = []
        self.module_globals: Dict[int, str] = {}
        # cloudpickle copies the globals that a function uses to a new dict, except for these dicts, which it keeps.
        self.globals_ref: Dict[int, Any] = {id(named_objects.namespace): named_objects.namespace}

    def persistent_id(self, value: Any) -> _Reference:
        visit = _VISITORS[type(value)]
        return None if visit is None else visit(self, value)

    def reducer_override(self, value: Any) -> Any:
        kind = type(value)
        if kind is FunctionType:
            return reducers.reduce_function(self, value)
        if issubclass(kind, type):
            return reducers.reduce_class(self, value)
        reduce = _REDUCERS[kind]
        if reduce is not None:
            return reduce(self, value)
        if self._linked and kind is sharing.array_type():
            owner = sharing.owner_of(value)
            if owner is not value and id(owner) in self._linked:
                return sharing.reduce_view(value, owner)
        return NotImplemented

    def by_value(self, value: Any) -> Any:
        """How the base pickler saves a function or class by value; NotImplemented if it saves it by name only."""
        below = getattr(super(), "reducer_override", None)
        return NotImplemented if below is None else below(value)

    def _visit_named(self, value: Any) -> _Reference:
        name = self._named_objects.named.get(id(value))
        if name is None or name in self._group:
            return None
        self.needs.add(name)
        return ("name", name)

    def _visit_class(self, value: Any) -> _Reference:
        if id(value) in self._named_objects.named:
            return self._visit_named(value)
        path = self._named_objects.path_to(value) if module_name(value) == "__main__" else None
        if path is None or path.split(".")[0] in self._group:
            return None
        self.needs.add(path.split(".")[0])
        return ("name", path)

    def _visit_state(self, value: Any) -> _Reference:
        if id(value) in self._named_objects.named:
            return self._visit_named(value)
        self.seen.append(value)
        return None

    def _visit_dict(self, value: Any) -> _Reference:
        if value is self._named_objects.namespace:
            return ("namespace",)
        if id(value) in self.module_globals:
            return ("globals", self.module_globals[id(value)])
        return self._visit_state(value)

    def _visit_tuple(self, value: Any) -> _Reference:
        # A tuple of plain values can be shared without consequences.
        for item in value:
            if _VISITORS[type(item)] is not None:
                return self._visit_state(value)
        return None

    def _visit_builtin(self, value: Any) -> _Reference:
        # A bound method of an object.
        if not isinstance(value.__self__, (ModuleType, type(None))):
            self.seen.append(value)
        return None

    def _visit_module(self, value: Any) -> _Reference:
        return ("main",) if value.__dict__ is self._named_objects.namespace else self._visit_named(value)

    def _visit_memory(self, value: Any) -> _Reference:
        """An array or a buffer: its memory may contain other arrays, or belong to another array."""
        reference = self._visit_named(value)
        if reference is None:
            self.seen.append(value)
            owner = sharing.owner_of(value)
            if owner is not None and owner is not value:
                self.views.append((owner, value))
        return reference

    def _refuse(self, value: Any) -> _Reference:
        if reducers.is_stream(value):
            return None
        if self._named_objects.named.get(id(value)) in self._named_objects.hosts:
            return self._visit_named(value)
        raise Unsaveable(describe(value, words_for(type(value)) or "a live object"), value)


class _Visitors(Dict[type, Optional[_Visitor]]):
    """The visitor of each type, determined once."""

    def __missing__(self, kind: type) -> Optional[_Visitor]:
        found = self[kind] = _visitor(kind)
        return found


class _Reducers(Dict[type, Any]):
    def __missing__(self, kind: type) -> Any:
        found = self[kind] = reducers.reducer_for(kind)
        return found


_VISITORS = _Visitors({
    dict: Hooks._visit_dict, tuple: Hooks._visit_tuple, frozenset: Hooks._visit_tuple,
    FunctionType: Hooks._visit_named, BuiltinFunctionType: Hooks._visit_builtin,
})
_REDUCERS = _Reducers()


def _visitor(kind: type) -> Optional[_Visitor]:
    if issubclass(kind, ModuleType):
        return Hooks._visit_module
    if issubclass(kind, type):
        return Hooks._visit_class
    if kind.__module__ == "typing":
        return Hooks._visit_named
    if words_for(kind) is not None:
        return Hooks._refuse
    if sharing.has_memory(kind):
        return Hooks._visit_memory
    return None if sharing.is_plain(kind) else Hooks._visit_state


_types: List[Any] = []


def make_pickler(file: Any, named_objects: NamedObjects, group: Container[str], linked: Container[int] = ()) -> Any:
    """Imports cloudpickle here, in a worker process, as it is a package of the code's environment."""
    if not _types:
        base: Any = pickle.Pickler
        try:
            import cloudpickle

            base = cloudpickle.Pickler
        except Exception:
            pass  # missing or unusable: functions and classes are saved as source
        _types.append(type("Pickler", (Hooks, base), {}))
    return _types[0](file, named_objects, group, linked)
