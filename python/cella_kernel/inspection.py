"""What the name at the cursor stands for: type, signature, documentation, source."""

from __future__ import annotations

import inspect
import keyword
import re
from typing import Any, Dict, List, Optional

from .previews import preview
from .resolving import Unresolved, resolve, static_attribute
from .scanning import Token, primary_start, scan
from .values import type_name

_REPR_CHARACTERS = 200
_LONGEST_TEXT = 100_000
_KEYWORDS = frozenset(keyword.kwlist)
_REST_OF_NAME = re.compile(r"\w*")


def inspect_at(namespace: Dict[str, Any], code: str, cursor: int) -> Dict[str, Any]:
    for name in _candidates(code, cursor):
        try:
            return _describe(name, _find(namespace, name))
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
        # A property is told of as such: its value would have to be worked out.
        return static_attribute(resolve(namespace, owner), last)


def _candidates(code: str, cursor: int) -> List[str]:
    """The name that the cursor touches or follows; else the function whose arguments it stands among."""
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


def _describe(name: str, value: Any) -> Dict[str, Any]:
    described: Dict[str, Any] = {"found": True, "name": name, "type": type_name(value)}
    for field, make in (("signature", _signature), ("doc", inspect.getdoc), ("source", _source)):
        try:
            text = make(value)
        except Exception:
            continue  # built into the interpreter, or the object does not let itself be looked at
        if type(text) is str and text:
            described[field] = text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT] + "…"
    if "signature" in described:
        described["signature"] = name.rpartition(".")[2] + described["signature"]
    described["repr"] = preview(value, _REPR_CHARACTERS)
    return described


def _source(value: Any) -> Optional[str]:
    if isinstance(value, property):
        value = value.fget
    return inspect.getsource(value) if inspect.isclass(value) or inspect.isroutine(value) else None


def _signature(value: Any) -> Optional[str]:
    return str(inspect.signature(value)) if callable(value) else None
