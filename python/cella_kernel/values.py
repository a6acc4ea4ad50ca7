"""Python values on the wire: marshal, version 2, of None, bool, int, float, str, bytes, list, tuple and dict with
text keys. Anything else travels as a set of one pair, (type name, repr): no plain set is ever sent.
"""

from __future__ import annotations

import marshal
import reprlib
import sys
from typing import Any, Dict, List, Set, Tuple

_PLAIN = frozenset((type(None), bool, int, float, str, bytes))
_NESTING = frozenset((list, tuple, dict))
_DEEPEST = 200
# Among the types that cannot travel: what lies deeper was not looked at.
_TOO_DEEP = frozenset(("too deep",))
# Each level of a repr copies those below it: the time grows with the square of the levels.
_DEEPEST_REPR = 500
# What a value may cost the host: a list, a dict or bytes count for many plain parts.
_MOST_NODES = 20_000_000
_NESTING_COST = 16
_LONGEST_REPR = 1 << 20
_LONGEST_NESTED_REPR = 4096
_MOST_DIGITS = 50_000


def pack(message: Any) -> bytes:
    return marshal.dumps(message, 2)


def portable(value: Any) -> Any:
    """`value` itself where all of it can travel; else a copy in which the other parts are opaque."""
    foreign: List[Any] = []
    if _measure(value, 0, {}, set(), foreign) > _MOST_NODES:
        return opaque(value)
    return _copy(value, 0, set()) if foreign else value


def is_bounded(value: Any) -> bool:
    """Whether the host takes it, as far as its parts and their depth go."""
    foreign: List[Any] = []
    return _measure(value, 0, {}, set(), foreign) <= _MOST_NODES and _TOO_DEEP.isdisjoint(foreign)


def opaque(value: Any, longest: int = _LONGEST_NESTED_REPR) -> Any:
    text, cut = short_repr(value, longest)
    return {(type_name(value), text + ("…" if cut else ""))}


def type_name(value: Any) -> str:
    kind = type(value)
    module = kind.__module__
    name = kind.__qualname__
    return name if module in ("builtins", "__main__") else "%s.%s" % (module, name)


def short_repr(value: Any, longest: int = _LONGEST_REPR) -> Tuple[str, int]:
    """The repr, cut to `longest` characters, and how many were cut. One that would take too long is abridged at each level."""
    text = reprlib.repr(value) if type(value) in _NESTING and _is_too_much(value) else _whole_repr(value)
    if type(text) is not str:
        text = str.__str__(text)
    return (text, 0) if len(text) <= longest else (text[:longest], len(text) - longest)


def _is_too_much(value: Any) -> bool:
    foreign: List[Any] = []
    if _measure(value, 0, {}, set(), foreign) > _MOST_NODES:
        return True
    return not _TOO_DEEP.isdisjoint(foreign) and _is_deep(value)


def _is_deep(value: Any) -> bool:
    """Level by level, without calling itself."""
    seen = {id(value)}
    level = [value]
    for _ in range(_DEEPEST_REPR):
        below: List[Any] = []
        for each in level:
            for item in each.values() if type(each) is dict else each:
                if type(item) in _NESTING and id(item) not in seen:
                    seen.add(id(item))
                    below.append(item)
        if not below:
            return False
        level = below
    return True


def _whole_repr(value: Any) -> str:
    """repr, also of integers that are longer than Python writes out by default."""
    try:
        return repr(value)
    except ValueError:
        limit = getattr(sys, "get_int_max_str_digits", int)()
        if not limit:
            raise
        if type(value) is int:
            return hex(value)
        # The digits of a number cost time by their square: this is as many as take no noticeable time.
        sys.set_int_max_str_digits(_MOST_DIGITS)
        try:
            return repr(value)
        finally:
            sys.set_int_max_str_digits(limit)


def _measure(value: Any, depth: int, known: Dict[int, Tuple[int, int]], path: Set[int], foreign: List[Any]) -> int:
    """How many nodes the value unfolds to, however few it is made of. Types that cannot travel go to `foreign`."""
    kind = type(value)
    if kind in _PLAIN:
        return 1 + _NESTING_COST if kind is bytes else 1
    key = id(value)
    if kind not in _NESTING or key in path:
        foreign.append(kind)
        return 1
    if depth >= _DEEPEST:
        foreign.extend(_TOO_DEEP)
        return 1
    items: Any = value
    if kind is dict:
        if not set(map(type, value)) <= {str}:
            foreign.append(kind)
        items = value.values()
    kinds = set(map(type, items))
    if kinds <= _PLAIN:
        costly = sum(type(item) is bytes for item in items) if bytes in kinds else 0
        return _NESTING_COST + len(value) + _NESTING_COST * costly
    # How far it goes down is known for where it was looked at, and for what is above.
    seen, deepest = known.get(key, (0, -1))
    if depth <= deepest:
        return seen
    path.add(key)
    total = _NESTING_COST
    for item in items:
        total += _measure(item, depth + 1, known, path, foreign)
    path.discard(key)
    known[key] = total, depth
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
