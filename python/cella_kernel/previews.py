"""Short, one-line previews of values: a container of millions is not written out to be cut afterwards."""

from __future__ import annotations

import re
from collections import Counter, OrderedDict, defaultdict, deque
from itertools import islice
from types import FunctionType, WrapperDescriptorType
from typing import Any, Callable, Dict, Iterable, List, Tuple

_LINE_ENDS = re.compile(r"\s*[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]\s*")
_DEEPEST = 4
# Decimal digits of larger integers take long to work out.
_MOST_BITS = 4096

# Which built-in type writes the value: a subclass with a repr of its own is not in these.
_TEXTS: Dict[Any, Any] = {str.__repr__: str, bytes.__repr__: bytes, bytearray.__repr__: bytearray}
_BRACKETS: Dict[Any, Tuple[Any, str, str]] = {
    list.__repr__: (list, "[", "]"),
    tuple.__repr__: (tuple, "(", ")"),
    set.__repr__: (set, "{", "}"),
    frozenset.__repr__: (frozenset, "frozenset({", "})"),
}
_NAMED = frozenset((OrderedDict.__repr__, defaultdict.__repr__, Counter.__repr__, deque.__repr__))


def preview(value: Any, longest: int) -> str:
    """At most `longest` characters on one line; what is cut ends in an ellipsis."""
    try:
        text = _LINE_ENDS.sub(" ", _short(value, longest, 0)).strip()
    except KeyboardInterrupt:
        raise  # the person who asked has stopped asking
    except BaseException as error:
        text = "<repr failed: %s>" % type(error).__name__
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _short(value: Any, room: int, depth: int) -> str:
    kind = type(value)
    how: Any = kind.__repr__
    if type(how) not in (WrapperDescriptorType, FunctionType):
        how = None  # the code's own callable, which need not even be hashable
    if how in _TEXTS:
        return how(_TEXTS[how].__getitem__(value, slice(room + 1)))
    if how is int.__repr__ and value.bit_length() > _MOST_BITS:
        return "<int of %d bits>" % value.bit_length()
    if how in _BRACKETS:
        base, opening, closing = _BRACKETS[how]
        count = base.__len__(value)
        if count:
            closing = ",)" if base is tuple and count == 1 else closing
            return opening + _items(base.__iter__(value), _short, room, depth) + closing
    if how is dict.__repr__:
        return "{" + _items(dict.items(value), _pair, room, depth) + "}"
    if how in _NAMED:
        is_dict = issubclass(kind, dict)
        first: Any = dict(islice(dict.items(value), room)) if is_dict else list(islice(deque.__iter__(value), room))
        return "%s(%s)" % (kind.__name__, _short(first, room, depth))
    text = repr(value)
    return text if type(text) is str else str.__str__(text)


def _pair(item: Any, room: int, depth: int) -> str:
    return "%s: %s" % (_short(item[0], room, depth), _short(item[1], room, depth))


def _items(items: Iterable[Any], write: Callable[[Any, int, int], str], room: int, depth: int) -> str:
    if depth >= _DEEPEST:
        return "…"
    parts: List[str] = []
    for item in items:
        if room <= 0:
            parts.append("…")
            break
        parts.append(write(item, room, depth + 1))
        room -= len(parts[-1]) + 2
    return ", ".join(parts)
