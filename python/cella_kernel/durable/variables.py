"""The variables of a namespace: which ones are saved, and which objects a pickle refers to by name."""

from __future__ import annotations

import functools
import sys
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

from ..protocol import LONGEST_NAME, MOST_NAME_BYTES, MOST_VARIABLES

# The last results: saved like other variables, but not reported if they are lost.
LAST_RESULTS = ("_", "__", "___")


def is_saved(name: object) -> bool:
    """Any name except those such as `__name__`, which belong to the module."""
    return type(name) is str and not (len(name) > 4 and name.startswith("__") and name.endswith("__"))


_LONGEST_REASON = 300


def bounded_names(names: Iterable[str]) -> Tuple[List[str], Dict[str, str]]:
    """The variables that fit into one checkpoint, and one reason for all others together."""
    fitting: List[str] = []
    lost: Dict[str, str] = {}
    room, left_out = MOST_NAME_BYTES, 0
    for name in names:
        size = len(name.encode("utf-8", "surrogatepass")) if len(name) <= LONGEST_NAME else room + 1
        if len(fitting) == MOST_VARIABLES or size > room:
            left_out += 1
        else:
            fitting.append(name)
            room -= size
    if left_out:
        lost["*"] = "%d variables are not saved: a checkpoint has at most %d, with names of %d characters and %d bytes in all" % (
            left_out,
            MOST_VARIABLES,
            LONGEST_NAME,
            MOST_NAME_BYTES,
        )
    return fitting, lost


def shorten_name(name: str) -> str:
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


def shorten_reason(reason: str) -> str:
    return reason if len(reason) <= _LONGEST_REASON else reason[: _LONGEST_REASON - 1] + "…"


# Read the real attributes of a class, even if its metaclass defines these names.
_module_of = type.__dict__["__module__"].__get__
_qualname_of = type.__dict__["__qualname__"].__get__
CACHED = type(functools.lru_cache(lambda: None))
_TYPING = ("TypeVar", "ParamSpec", "TypeVarTuple", "NewType")


class NamedObjects:
    def __init__(self, namespace: Dict[str, Any], hosts: Iterable[str]) -> None:
        """`hosts`: variables that are not saved, because every process that loads has them."""
        self.namespace = namespace
        self.hosts = frozenset(hosts)
        # The id of an object, and the variable that replaces it in all pickles except its own.
        self.named: Dict[int, str] = {}
        # Objects whose ids were noted, kept alive so that no other object gets the same id.
        self.kept: List[Any] = []

    def name_all(self, names: Iterable[str], values: Dict[str, Any]) -> None:
        """Names values; of several names for one value, the first. Functions and classes of modules are not named."""
        for name in names:
            if not _is_code(values[name]):
                self.named.setdefault(id(values[name]), name)

    def name_definitions(self, names: Sequence[str], values: Dict[str, Any]) -> None:
        """Names definitions; of several names for one definition, the name that it was written with."""
        for name in names:
            if _written_name(values[name]) == name:
                self.named[id(values[name])] = name
        for name in names:
            self.named.setdefault(id(values[name]), name)

    def path_to(self, value: Any) -> Optional[str]:
        """The path of a class inside a class that is a variable: `Outer.Inner`."""
        first, *rest = _qualified_name(value).split(".")
        found = self.namespace.get(first)
        if not rest or self.named.get(id(found)) != first:
            return None
        for part in rest:
            found = vars(found).get(part) if isinstance(found, type) else None
        return ".".join((first, *rest)) if found is value else None


def is_definition(value: Any) -> bool:
    """Whether it is a function, class or type variable that cannot be imported from a module."""
    kind = type(value)
    if kind is FunctionType or kind is CACHED or issubclass(kind, type):
        return not _is_importable(value)
    typing = sys.modules.get("typing")
    if kind.__module__ != "typing" or typing is None or kind.__name__ not in _TYPING:
        return False
    return vars(typing).get(getattr(value, "__name__", "")) is not value


def _is_code(value: Any) -> bool:
    kind = type(value)
    return kind is FunctionType or kind is BuiltinFunctionType or issubclass(kind, type)


def _is_importable(value: Any) -> bool:
    module = sys.modules.get(module_name(value) or "")
    if module is None or module is sys.modules.get("__main__") or module_name(value) == "__main__":
        return False
    found: Any = module
    for part in _qualified_name(value).split("."):
        found = getattr(found, part, None)
    return found is value


def is_known_module(value: Any) -> bool:
    """Whether it is a module that can be imported by its name."""
    return isinstance(value, ModuleType) and sys.modules.get(value.__name__) is value and value.__spec__ is not None


def _written_name(value: Any) -> str:
    return _qualified_name(value).rpartition(".")[2]


def module_name(value: Any) -> Optional[str]:
    name = _module_of(value) if isinstance(value, type) else getattr(value, "__module__", None)
    return name if type(name) is str else None


def _qualified_name(value: Any) -> str:
    if isinstance(value, type):
        name = _qualname_of(value)
    else:
        name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    return name if type(name) is str else ""
