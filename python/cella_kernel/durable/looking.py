"""The first look at a name: a module that is imported again, a definition that may have a source, or a value."""

from __future__ import annotations

from typing import Any, Dict

from . import defining, extracting, surroundings
from .extracting import Cells
from .scene import is_definition, is_known_module

# Neither modules nor definitions.
_VALUES = frozenset((int, float, str, bytes, bool, type(None), list, dict, tuple, set, complex))


def facts_of(name: str, value: Any, namespace: Dict[str, Any], cells: Cells) -> Dict[str, Any]:
    """`module` for a module; `place` and `source` for a definition; nothing for a value."""
    if type(value) in _VALUES:
        return {}
    if is_known_module(value) and vars(value) is not namespace:
        return {"module": surroundings.describe_module(value)}
    if not is_definition(value):
        return {}
    source = extracting.extract(name, value, cells)
    if source is not None and ";" in source["text"]:
        # Of several statements on one line, the text may hold a part of the next.
        try:
            defining.compile_source(source)
        except (SyntaxError, ValueError, IndexError):
            source = None
    if source is not None:
        return {"place": cells.place(source["file"], source["line"]), "source": source}
    code = extracting.written_code(value)
    return {"place": cells.place(code.co_filename if code else "", code.co_firstlineno if code else 0), "source": None}
