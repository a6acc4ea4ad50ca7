"""Describes objects and variables: type, signature, documentation, source, size and a preview of one line.

A preview is cut while it is built, so that a container of millions of items is never formatted completely.
"""

from __future__ import annotations

import inspect
import keyword
import re
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from itertools import islice
from types import FunctionType, WrapperDescriptorType
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

from ..durable.variables import LAST_RESULTS, is_saved
from ..protocol import LONGEST_NAME
from ..values import type_name
from .resolve import Unresolved, module_of, resolve, static_attribute
from .scanner import Token, primary_start, scan

_REPR_CHARACTERS = 200
_LONGEST_TEXT = 100_000
_KEYWORDS = frozenset(keyword.kwlist)
_REST_OF_NAME = re.compile(r"\w*")


def inspect_at(namespace: Dict[str, Any], code: str, cursor: int) -> Dict[str, Any]:
    for name in _candidates(code, cursor):
        try:
            return _describe_object(name, _find(namespace, name))
        except Unresolved:
            continue
    return {"found": False}


def _find(namespace: Dict[str, Any], name: str) -> Any:
    try:
        return resolve(namespace, name)
    except Unresolved:
        owner, _, last = name.rpartition(".")
        if not owner:
            raise
        # A property is described as a property: computing its value would run code.
        return static_attribute(resolve(namespace, owner), last)


def _candidates(code: str, cursor: int) -> List[str]:
    """The name at or before the cursor, then the functions in whose arguments the cursor is, innermost first."""
    cursor = max(0, min(cursor, len(code)))
    match = _REST_OF_NAME.match(code, cursor)
    text = code[: match.end() if match else cursor]
    tokens, opened, unfinished = scan(text)
    found = []
    if unfinished is None and tokens and tokens[-1].kind != "newline":
        found.append(_name_ending_at(text, tokens, len(tokens) - 1))
    for index in reversed(opened):
        if tokens[index].text == "(":
            found.append(_name_ending_at(text, tokens, index - 1))
    return [name for name in found if name]


def _name_ending_at(text: str, tokens: List[Token], last: int) -> Optional[str]:
    if last < 0 or (tokens[last].kind == "name" and tokens[last].text in _KEYWORDS):
        return None
    if tokens[last].kind == "op" and tokens[last].text not in ")]":
        return None
    start = primary_start(tokens, last, _KEYWORDS)
    return None if start is None else text[tokens[start].start : tokens[last].end]


def _describe_object(name: str, value: Any) -> Dict[str, Any]:
    described: Dict[str, Any] = {"found": True, "name": name, "type": type_name(value)}
    for field, make in (("signature", _signature), ("doc", inspect.getdoc), ("source", _source)):
        try:
            text = make(value)
        except Exception:
            continue  # a builtin without this information, or an object that raises
        if type(text) is str and text:
            described[field] = text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT] + "…"
    if "signature" in described:
        described["signature"] = name.rpartition(".")[2] + described["signature"]
    described["repr"] = _preview(value, _REPR_CHARACTERS)
    return described


def _source(value: Any) -> Optional[str]:
    if isinstance(value, property):
        value = value.fget
    return inspect.getsource(value) if inspect.isclass(value) or inspect.isroutine(value) else None


def _signature(value: Any) -> Optional[str]:
    return str(inspect.signature(value)) if callable(value) else None


_PREVIEW_CHARACTERS = 80
_MOST_VARIABLES = 5000
# An array that repeats one item can report a larger size. Every JSON reader can represent this number exactly.
_LARGEST_SIZE = (1 << 53) - 1
_SIZED = (str, bytes, bytearray, list, tuple, dict, set, frozenset, range, deque)


def list_variables(namespace: Dict[str, Any]) -> List[Dict[str, Any]]:
    """The variables; if they are too many for one answer, the newest."""
    users = [(name, value) for name, value in list(namespace.items()) if is_saved(name) and name not in LAST_RESULTS]
    return [_describe_variable(name, value) for name, value in users[-_MOST_VARIABLES:]]


def _describe_variable(name: str, value: Any) -> Dict[str, Any]:
    shown = name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"
    described: Dict[str, Any] = {"name": shown, "type": type_name(value), "size": min(_size(value), _LARGEST_SIZE)}
    length = _length(value)
    if length is not None:
        described["length"] = length
    described["preview"] = _preview(value, _PREVIEW_CHARACTERS)
    return described


def _size(value: Any) -> int:
    count = _from_library(value, "nbytes")
    if type(count) is int and count >= 0:
        return count
    try:
        usage = _from_library(value, "memory_usage")
        # Not deep: that would look at each object of each column.
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
    """An attribute that the value's type defines. None for types of the code, where the name can mean anything."""
    kind = type(value)
    try:
        if module_of(kind) == "__main__" or kind is type or not hasattr(kind, name):
            return None
        return getattr(value, name)
    except Exception:
        return None


_LINE_ENDS = re.compile(r"\s*[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]\s*")
_DEEPEST = 4
# The decimal digits of larger integers take long to compute.
_MOST_BITS = 4096

# The built-in type whose repr is used. Subclasses with their own repr are not in these tables.
_TEXTS: Dict[Any, Any] = {str.__repr__: str, bytes.__repr__: bytes, bytearray.__repr__: bytearray}
_BRACKETS: Dict[Any, Tuple[Any, str, str]] = {
    list.__repr__: (list, "[", "]"),
    tuple.__repr__: (tuple, "(", ")"),
    set.__repr__: (set, "{", "}"),
    frozenset.__repr__: (frozenset, "frozenset({", "})"),
}
_NAMED = frozenset((OrderedDict.__repr__, defaultdict.__repr__, Counter.__repr__, deque.__repr__))


def _preview(value: Any, longest: int) -> str:
    """At most `longest` characters on one line, with an ellipsis if something was cut."""
    try:
        text = _LINE_ENDS.sub(" ", _short(value, longest, 0)).strip()
    except KeyboardInterrupt:
        raise  # the request was interrupted
    except BaseException as error:
        text = "<repr failed: %s>" % type(error).__name__
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _short(value: Any, room: int, depth: int) -> str:
    kind = type(value)
    how: Any = kind.__repr__
    if type(how) not in (WrapperDescriptorType, FunctionType):
        how = None  # a callable of the code, which may not be hashable
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
