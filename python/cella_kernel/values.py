"""Python values on the wire: marshal, version 2, of None, bool, int, float, str, bytes, list, tuple and dict with
text keys. Anything else travels as a set of one pair, (type name, repr): no plain set is ever sent.
"""

from __future__ import annotations

import marshal
import reprlib
from typing import Any, Dict, List, Set, Tuple

_PLAIN = frozenset((type(None), bool, int, float, str, bytes))
_NESTING = frozenset((list, tuple, dict))
_DEEPEST = 200
_MOST_NODES = 20_000_000
_LONGEST_REPR = 1 << 20
_LONGEST_NESTED_REPR = 4096


def pack(message: Any) -> bytes:
    return marshal.dumps(message, 2)


def portable(value: Any) -> Any:
    """`value` itself where all of it can travel; else a copy in which the other parts are opaque."""
    foreign: List[Any] = []
    if _measure(value, 0, {}, set(), foreign) > _MOST_NODES:
        return opaque(value)
    return _copy(value, 0, set()) if foreign else value


def opaque(value: Any, longest: int = _LONGEST_NESTED_REPR) -> Any:
    text, cut = short_repr(value, longest)
    return {(type_name(value), text + ("…" if cut else ""))}


def type_name(value: Any) -> str:
    kind = type(value)
    module = kind.__module__
    name = kind.__qualname__
    return name if module in ("builtins", "__main__") else "%s.%s" % (module, name)


def short_repr(value: Any, longest: int = _LONGEST_REPR) -> Tuple[str, int]:
    """The repr, cut to `longest` characters, and how many were cut. One without end is abridged at each level."""
    endless = type(value) in _NESTING and _measure(value, 0, {}, set(), []) > _MOST_NODES
    text = reprlib.repr(value) if endless else repr(value)
    if type(text) is not str:
        text = str.__str__(text)
    return (text, 0) if len(text) <= longest else (text[:longest], len(text) - longest)


def _measure(value: Any, depth: int, known: Dict[int, int], path: Set[int], foreign: List[Any]) -> int:
    """How many nodes the value unfolds to, however few it is made of. Types that cannot travel go to `foreign`."""
    kind = type(value)
    if kind in _PLAIN:
        return 1
    key = id(value)
    if kind not in _NESTING or key in path or depth >= _DEEPEST:
        foreign.append(kind)
        return 1
    items: Any = value
    if kind is dict:
        if not set(map(type, value)) <= {str}:
            foreign.append(kind)
        items = value.values()
    if set(map(type, items)) <= _PLAIN:
        return 1 + len(value)
    if key in known:
        return known[key]
    path.add(key)
    total = 1
    for item in items:
        total += _measure(item, depth + 1, known, path, foreign)
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
