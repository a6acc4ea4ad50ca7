"""Python values on the wire: marshal, version 2, of None, bool, int, float, str, bytes, list, tuple and dict with
text keys. Anything else travels as a set of one pair, (type name, repr): no plain set is ever sent.
"""

from __future__ import annotations

import marshal
from typing import Any, Dict, Optional, Set, Tuple

_PLAIN = frozenset((type(None), bool, int, float, str, bytes))
_DEEPEST = 200
_MOST_NODES = 20_000_000
_LONGEST_REPR = 1 << 20
_LONGEST_NESTED_REPR = 4096


def pack(message: Any) -> bytes:
    return marshal.dumps(message, 2)


def portable(value: Any) -> Any:
    """`value` itself where all of it can travel; else a copy in which the other parts are opaque."""
    try:
        nodes = _measure(value, 0, {}, set())
    except RecursionError:
        nodes = None
    if nodes is None:
        return _copy(value, 0, set())
    if nodes > _MOST_NODES:
        return opaque(value)
    return value


def opaque(value: Any, longest: int = _LONGEST_NESTED_REPR) -> Any:
    text, cut = short_repr(value, longest)
    return {(type_name(value), text + ("…" if cut else ""))}


def type_name(value: Any) -> str:
    kind = type(value)
    module = kind.__module__
    name = kind.__qualname__
    return name if module in ("builtins", "__main__") else "%s.%s" % (module, name)


def short_repr(value: Any, longest: int = _LONGEST_REPR) -> Tuple[str, int]:
    """The repr, cut to `longest` characters, and how many were cut."""
    text = repr(value)
    if type(text) is not str:
        text = str.__str__(text)
    return (text, 0) if len(text) <= longest else (text[:longest], len(text) - longest)


def _measure(value: Any, depth: int, known: Dict[int, int], path: Set[int]) -> Optional[int]:
    """How many nodes the value unfolds to; None where a part of it cannot travel."""
    kind = type(value)
    if kind in _PLAIN:
        return 1
    if kind is dict:
        if not set(map(type, value)) <= {str}:
            return None
        items: Any = value.values()
    elif kind is list or kind is tuple:
        items = value
    else:
        return None
    if set(map(type, items)) <= _PLAIN:
        return 1 + len(value)
    key = id(value)
    if key in path or depth >= _DEEPEST:
        return None
    if key in known:
        return known[key]
    path.add(key)
    total = 1
    for item in items:
        nodes = _measure(item, depth + 1, known, path)
        if nodes is None:
            return None
        total += nodes
    path.discard(key)
    known[key] = total
    return total


def _copy(value: Any, depth: int, path: Set[int]) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    key = id(value)
    if key in path or depth >= _DEEPEST or len(path) > _DEEPEST:
        return opaque(value)
    if kind is dict and set(map(type, value)) <= {str}:
        path.add(key)
        result: Any = {name: _copy(item, depth + 1, path) for name, item in value.items()}
        path.discard(key)
        return result
    if kind is list or kind is tuple:
        path.add(key)
        result = [_copy(item, depth + 1, path) for item in value]
        path.discard(key)
        return result
    return opaque(value, _LONGEST_REPR if depth == 0 else _LONGEST_NESTED_REPR)
