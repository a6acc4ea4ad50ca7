"""What the code has bound: names with type, size and a short preview."""

from __future__ import annotations

import sys
from collections import deque
from typing import Any, Dict, List, Optional

from .previews import preview
from .resolving import module_of
from .values import type_name

_PREVIEW_CHARACTERS = 80
_MOST_VARIABLES = 5000
_LONGEST_NAME = 255
# An array that repeats one item may claim more; every reader takes this as a plain number.
_LARGEST_SIZE = (1 << 53) - 1
# The kernel's own: the last three values.
_LAST_VALUES = ("_", "__", "___")
_SIZED = (str, bytes, bytearray, list, tuple, dict, set, frozenset, range, deque)


def list_variables(namespace: Dict[str, Any]) -> List[Dict[str, Any]]:
    """The newest, where there are more than one answer holds."""
    users = [(name, value) for name, value in list(namespace.items()) if _is_users(name)]
    return [_describe(name, value) for name, value in users[-_MOST_VARIABLES:]]


def _is_users(name: Any) -> bool:
    if type(name) is not str or name in _LAST_VALUES:
        return False
    return not (name.startswith("__") and name.endswith("__"))


def _describe(name: str, value: Any) -> Dict[str, Any]:
    shown = name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"
    described: Dict[str, Any] = {"name": shown, "type": type_name(value), "size": min(_size(value), _LARGEST_SIZE)}
    length = _length(value)
    if length is not None:
        described["length"] = length
    described["preview"] = preview(value, _PREVIEW_CHARACTERS)
    return described


def _size(value: Any) -> int:
    count = _from_library(value, "nbytes")
    if type(count) is int and count >= 0:
        return count
    try:
        usage = _from_library(value, "memory_usage")
        # Without a look into each object of a column: that takes as long as the frame is tall.
        return int(usage().sum()) if callable(usage) else sys.getsizeof(value)
    except Exception:
        return object.__sizeof__(value)


def _length(value: Any) -> Optional[str]:
    kind = type(value)
    for base in _SIZED:
        if issubclass(kind, base):
            return str(base.__len__(value))
    shape = _from_library(value, "shape")
    if isinstance(shape, tuple) and shape and all(type(side) is int for side in shape):
        return "x".join(map(str, shape))
    return None


def _from_library(value: Any, name: str) -> Any:
    """An attribute that the value's type has; None for the code's own types, which may mean anything by it."""
    kind = type(value)
    try:
        if module_of(kind) == "__main__" or kind is type or not hasattr(kind, name):
            return None
        return getattr(value, name)
    except Exception:
        return None
