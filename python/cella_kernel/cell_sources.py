"""The text of every cell, stored where tracebacks and `inspect.getsource` look for it."""

from __future__ import annotations

import ast
import inspect
import io
import linecache
import sys
from collections import deque
from typing import Any, Deque, Dict, Iterator, List, Tuple

_MOST_BYTES = 64 << 20
# The memory of an entry in addition to its lines: the list, the tuples, the name and slots in two tables.
_ENTRY_BYTES = 500

_kept: Deque[Tuple[str, int]] = deque()
_bytes = 0
_classes: Dict[str, str] = {}


def file_name(number: int) -> str:
    return "<cell %d>" % number


def lines(source: str) -> List[str]:
    """Splits lines as the compiler does: str.splitlines also splits at other characters."""
    return io.StringIO(source, newline=None).readlines()


def remember(name: str, source: str) -> None:
    """Stores the lines of a cell, and drops the oldest cells if all of them take too much memory."""
    global _bytes
    kept = lines(source)
    if kept and not kept[-1].endswith("\n"):
        # Tracebacks need a line break to place their carets.
        kept[-1] += "\n"
    linecache.cache[name] = (len(source), None, kept, name)
    size = _ENTRY_BYTES + sum(map(sys.getsizeof, kept))
    _kept.append((name, size))
    _bytes += size
    while _bytes > _MOST_BYTES and len(_kept) > 1:
        oldest, size = _kept.popleft()
        linecache.cache.pop(oldest, None)
        _bytes -= size


def remember_skill(name: str, source: str) -> str:
    """Stores the lines of a skill under a file name that no earlier version has. Returns that name."""
    file, version = "<skill %s>" % name, 1
    while file in linecache.cache:
        version += 1
        file = "<skill %s (%d)>" % (name, version)
    linecache.cache[file] = (len(source), None, lines(source), file)
    return file


def remember_again(name: str, source: str) -> None:
    """Stores a cell of an earlier process, whose functions and classes were restored."""
    remember(name, source)
    try:
        remember_classes(name, source, ast.parse(source).body)
    except (SyntaxError, ValueError):
        pass  # it has top-level await, or is damaged: its classes are not found


def texts() -> Dict[str, str]:
    """The text of each stored cell by its file name, oldest first."""
    return {name: "".join(linecache.cache[name][2]) for name, _ in _kept if name in linecache.cache}


def forget_all() -> None:
    global _bytes
    for name, _ in _kept:
        linecache.cache.pop(name, None)
    _kept.clear()
    _bytes = 0


def remember_classes(name: str, source: str, body: "list[ast.stmt]") -> None:
    """Notes which cell defined each class, as a class does not have the name of its file."""
    if "class" in source:
        _note(name, "", body)


def _note(name: str, prefix: str, body: "list[ast.stmt]") -> None:
    for node in body:
        if isinstance(node, ast.ClassDef):
            _classes[prefix + node.name] = name
            _note(name, prefix + node.name + ".", node.body)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            _note(name, prefix + node.name + ".<locals>.", node.body)
        else:
            for inner in nested_bodies(node):
                _note(name, prefix, inner)


def nested_bodies(node: ast.stmt) -> "Iterator[list[ast.stmt]]":
    """The lists of statements directly inside a statement: its branches, exception handlers and `match` cases."""
    for field in ("body", "orelse", "finalbody"):
        yield getattr(node, field, None) or []
    for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
        yield part.body


def install() -> None:
    original = inspect.getfile

    def getfile(value: Any) -> str:
        if isinstance(value, type) and value.__module__ == "__main__":
            main = sys.modules.get("__main__")
            if getattr(main, "__file__", None) is None and value.__qualname__ in _classes:
                return _classes[value.__qualname__]
        return original(value)

    getfile.__doc__ = original.__doc__
    inspect.getfile = getfile
