"""Python values as bytes: marshal version 2 of None, bool, int, float, str, bytes, list, tuple and dict with text keys.

Any other value is sent as a set that contains one pair, (type name, repr). Sets are never sent otherwise.
"""

from __future__ import annotations

import marshal
import reprlib
import sys
from typing import Any, Dict, Iterable, List, Set, Tuple

from .protocol import (
    DEEPEST_VALUE,
    INTEGER_ITEM_BITS,
    LARGEST_VALUE_BYTES,
    LONGEST_NAME,
    LONGEST_REPR,
    MOST_INTEGER_DIGITS,
    MOST_VALUE_ITEMS,
)

_PLAIN = frozenset((type(None), bool, int, float, str, bytes))
_NESTING = frozenset((list, tuple, dict))
# Each level of a repr copies the levels below it, so the time grows with the square of the depth.
_DEEPEST_REPR = 500
# The smallest positive integer with too many decimal digits.
_TOO_LONG = 10**MOST_INTEGER_DIGITS
# Limits of a repr that is written in full.
_MOST_REPR_ITEMS = 2_000_000
_LARGEST_REPR = 256 << 20
_LONGEST_NESTED_REPR = 4096
_MOST_DIGITS = 50_000


def pack(message: Any) -> bytes:
    return marshal.dumps(message, 2)


def portable(value: Any) -> Any:
    """`value` itself if all of it can be sent, else a copy that has types and reprs in place of the other parts."""
    census = _Census(MOST_VALUE_ITEMS, LARGEST_VALUE_BYTES)
    if not census.take(value):
        return oversize(value)
    return _copy(value, 0, set()) if census.foreign else value


def is_bounded(value: Any) -> bool:
    """Whether the value has no more items, levels and digits than the host accepts."""
    census = _Census(MOST_VALUE_ITEMS, sys.maxsize)
    return census.take(value) and not census.beyond


def _opaque(value: Any, longest: int = _LONGEST_NESTED_REPR) -> Any:
    """The type and the repr of a value that cannot be sent."""
    text, cut = short_repr(value, longest)
    return {(type_name(value), text + ("…" if cut else ""))}


def oversize(value: Any) -> Any:
    """For a value that is too large to send: type, repr and size (items, characters, bytes, or the bits of an integer)."""
    ((kind, text),) = _opaque(value)
    size = value.bit_length() if type(value) is int else len(value) if type(value) in (list, tuple, dict, str, bytes) else 0
    return {(kind, text, size)}


def type_name(value: Any) -> str:
    kind = type(value)
    module = kind.__module__
    name = kind.__qualname__
    full = name if module in ("builtins", "__main__") else "%s.%s" % (module, name)
    return full if len(full) <= LONGEST_NAME else full[: LONGEST_NAME - 1] + "…"


def short_repr(value: Any, longest: int = LONGEST_REPR) -> Tuple[str, int]:
    """The repr, cut to `longest` characters, and how many were cut. A repr that would take too long is shortened inside."""
    text = reprlib.repr(value) if type(value) in _NESTING and _is_too_much(value) else _whole_repr(value)
    if type(text) is not str:
        text = str.__str__(text)
    return (text, 0) if len(text) <= longest else (text[:longest], len(text) - longest)


def _is_too_much(value: Any) -> bool:
    census = _Census(_MOST_REPR_ITEMS, _LARGEST_REPR)
    return not census.take(value) or (census.beyond and _is_deep(value))


def _is_deep(value: Any) -> bool:
    """Goes level by level and not by recursion, which could overflow."""
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
    """repr, also for integers that are longer than Python's limit on digits."""
    if type(value) is int and not -_TOO_LONG < value < _TOO_LONG:
        return hex(value) if value.bit_length() < 4 * LONGEST_REPR else "<int of %d bits>" % value.bit_length()
    try:
        return repr(value)
    except ValueError:
        limit = getattr(sys, "get_int_max_str_digits", int)()
        if not limit:
            raise
        if type(value) is int:
            return hex(value)
        # Time grows with the square of the digits: this many take no noticeable time.
        sys.set_int_max_str_digits(_MOST_DIGITS)
        try:
            return repr(value)
        finally:
            sys.set_int_max_str_digits(limit)


class _Census:
    """Counts the items and bytes of a value as if nothing in it were shared, and stops at a limit."""

    def __init__(self, most_items: int, most_bytes: int) -> None:
        self._items = most_items
        self._bytes = most_bytes
        # By identity: the items and bytes of a part, and its depth. Further down the same part may be too deep.
        self._known: Dict[int, Tuple[int, int, int]] = {}
        # Whether some part cannot be sent as it is; whether some part is too deep or an integer too long.
        self.foreign = False
        self.beyond = False

    def take(self, value: Any) -> bool:
        """False if the value exceeds a limit."""
        return self._take(value, 0, set())

    def _take(self, value: Any, depth: int, path: Set[int]) -> bool:
        kind = type(value)
        if kind in _PLAIN:
            return self._take_plain((value,), {kind})
        if kind not in _NESTING or id(value) in path:
            self.foreign = True
            return True
        if depth >= DEEPEST_VALUE:
            self.foreign = self.beyond = True
            return True
        known = self._known.get(id(value))
        if known is not None and depth <= known[2]:
            self._items -= known[0]
            self._bytes -= known[1]
            return self._items >= 0 and self._bytes >= 0
        before = self._items, self._bytes
        self._items -= len(value)
        if self._items < 0:
            return False
        items: Any = value
        if kind is dict:
            names = set(map(type, value))
            if not names <= {str}:
                self.foreign = True
            elif not self._take_plain(value, names):
                return False
            items = value.values()
        kinds = set(map(type, items))
        if kinds <= _PLAIN:
            return self._take_plain(items, kinds)
        path.add(id(value))
        for item in items:
            if not self._take(item, depth + 1, path):
                return False
        path.discard(id(value))
        self._known[id(value)] = before[0] - self._items, before[1] - self._bytes, depth
        return True

    def _take_plain(self, items: Iterable[Any], kinds: Set[type]) -> bool:
        if int in kinds:
            numbers = items if kinds == {int} else [item for item in items if type(item) is int]
            largest, smallest = max(numbers), min(numbers)
            if largest >= _TOO_LONG or smallest <= -_TOO_LONG:
                self.foreign = self.beyond = True
            if largest.bit_length() >= INTEGER_ITEM_BITS or smallest.bit_length() >= INTEGER_ITEM_BITS:
                self._items -= sum(item.bit_length() // INTEGER_ITEM_BITS for item in numbers)
        if str in kinds or bytes in kinds:
            self._bytes -= sum(len(item) for item in items if type(item) is str or type(item) is bytes)
        return self._bytes >= 0 and self._items >= 0


def _copy(value: Any, depth: int, path: Set[int]) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return oversize(value) if kind is int and not -_TOO_LONG < value < _TOO_LONG else value
    key = id(value)
    if key in path or depth >= DEEPEST_VALUE or len(path) > DEEPEST_VALUE:
        return _opaque(value)
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
    return _opaque(value, LONGEST_REPR if depth == 0 else _LONGEST_NESTED_REPR)
