"""Functions and classes saved as source: the statement is cut out of its cell, and runs again on load.

Used if code cannot be loaded: in another minor version of Python, or if it was saved without cloudpickle. A class is
defined again with its decorators. A function is defined without them if the variable holds the plain function, as the
decorator has then had its effect elsewhere; else with them, for example for functools.lru_cache.
"""

from __future__ import annotations

import __future__
import ast
from types import CodeType, FunctionType
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple, Union

from ..cell_sources import lines, nested_bodies

_Definition = Union[ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign]
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# Calls that create a class or a type: running one of these again has no other effect.
_FACTORIES = frozenset((
    "namedtuple", "NamedTuple", "TypedDict", "NewType", "TypeVar", "ParamSpec", "TypeVarTuple", "make_dataclass",
    "Enum", "IntEnum", "StrEnum", "Flag", "IntFlag",
))


class CellTexts:
    """The texts of the cells, each parsed when it is first needed."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self.texts = texts
        self._order = {name: index for index, name in enumerate(texts)}
        self._parsed: Dict[str, List[_Definition]] = {}
        self._lines: Dict[str, List[str]] = {}

    def lines(self, file: str) -> List[str]:
        if file not in self._lines:
            self._lines[file] = lines(self.texts[file])
        return self._lines[file]

    def place(self, file: str, line: int) -> Tuple[int, int]:
        """A sort key: later cells and lines are greater."""
        return self._order.get(file, len(self._order)), line

    def definitions(self, file: str) -> List[_Definition]:
        if file not in self._parsed:
            try:
                flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
                tree = compile(self.texts[file], file, "exec", flags, True)
                self._parsed[file] = list(_top_level(tree.body))
            except (SyntaxError, ValueError, MemoryError, RecursionError, KeyError):
                self._parsed[file] = []
        return self._parsed[file]


def extract(name: str, value: Any, cells: CellTexts) -> Optional[Dict[str, Any]]:
    """The source of a value, for `define`. None if it was not defined at the top level of a known cell."""
    found = _find_class(value, cells) if isinstance(value, type) else _find_function(value, cells)
    if found is None and not isinstance(value, FunctionType):
        found = _find_call(name, cells)
    if found is None:
        return None
    file, node = found
    first = _first_line(node)
    text = cells.lines(file)[first - 1 : node.end_lineno]
    if text[0][: node.col_offset].strip():
        return None  # another statement begins on the same line
    return {
        "file": file,
        "line": first,
        "text": "".join(text),
        "defines": _defined_name(node),
        "bare": isinstance(value, FunctionType) and "__wrapped__" not in vars(value),
        "futures": _futures(value),
    }


def _find_function(value: Any, cells: CellTexts) -> Optional[Tuple[str, _Definition]]:
    code = written_code(value)
    if code is None or code.co_name == "<lambda>":
        return None
    for node in cells.definitions(code.co_filename):
        if isinstance(node, _FUNCTIONS) and node.name == code.co_name and _first_line(node) == code.co_firstlineno:
            return code.co_filename, node
    return None


def _find_class(value: type, cells: CellTexts) -> Optional[Tuple[str, _Definition]]:
    """A class does not know where it was defined, but its methods do. Without methods, takes the last definition."""
    codes = [written_code(item) for item in vars(value).values()]
    own = [code for code in codes if code is not None and code.co_filename in cells.texts]
    files = [code.co_filename for code in own] or [
        file for file, text in reversed(list(cells.texts.items())) if "class" in text and value.__name__ in text
    ]
    for file in files:
        for node in reversed(cells.definitions(file)):
            if not isinstance(node, ast.ClassDef) or node.name != value.__name__ or value.__qualname__ != node.name:
                continue
            if not own or any(_first_line(node) <= code.co_firstlineno <= (node.end_lineno or 0) for code in own):
                return file, node
    return None


def _find_call(name: str, cells: CellTexts) -> Optional[Tuple[str, _Definition]]:
    """The last statement such as `Point = namedtuple("Point", "x y")`."""
    for file, text in reversed(list(cells.texts.items())):
        if name in text and "(" in text:
            for node in reversed(cells.definitions(file)):
                if isinstance(node, ast.Assign) and _defined_name(node) == name:
                    return file, node
    return None


def written_code(value: Any) -> Optional[CodeType]:
    """The code of a function, or of the function that a wrapper wraps."""
    for _ in range(100):
        if isinstance(value, (classmethod, staticmethod)):
            value = value.__func__
        elif isinstance(value, property):
            value = value.fget
        elif "__wrapped__" in (getattr(value, "__dict__", None) or ()):
            value = vars(value)["__wrapped__"]
        else:
            break
    return value.__code__ if isinstance(value, FunctionType) else None


def _top_level(body: List[ast.stmt]) -> Iterator[_Definition]:
    """The definitions of a cell, also inside `if` or `with`, but not inside another definition."""
    for node in body:
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)) or (isinstance(node, ast.Assign) and _is_factory(node)):
            yield node
        else:
            for inner in nested_bodies(node):
                yield from _top_level(inner)


def _is_factory(node: ast.Assign) -> bool:
    if len(node.targets) != 1 or not isinstance(node.targets[0], ast.Name) or not isinstance(node.value, ast.Call):
        return False
    made_by = node.value.func
    name = made_by.attr if isinstance(made_by, ast.Attribute) else getattr(made_by, "id", "")
    return name in _FACTORIES


def _first_line(node: _Definition) -> int:
    decorators: List[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def _defined_name(node: _Definition) -> str:
    return node.targets[0].id if isinstance(node, ast.Assign) else node.name  # type: ignore[attr-defined]


def _futures(value: Any) -> List[str]:
    """The `from __future__ import` names in effect: they apply to the cell that has them and to all later cells."""
    parts = vars(value).values() if isinstance(value, type) else (value,)
    flags = next((code.co_flags for code in map(written_code, parts) if code is not None), 0)
    return [name for name in __future__.all_feature_names if getattr(__future__, name).compiler_flag & flags]


def define(source: Dict[str, Any], namespace: Dict[str, Any]) -> Any:
    """Runs the statement with its original line numbers and file name. Returns what it defines."""
    code = compile_source(source)
    # Not into the namespace, as the variable may have another name.
    defined: Dict[str, Any] = {}
    exec(code, namespace, defined)
    return defined[source["defines"]]


def compile_source(source: Dict[str, Any]) -> Any:
    text, file = source["text"], source["file"]
    futures = 0
    for name in source["futures"]:
        futures |= getattr(__future__, name).compiler_flag
    # A statement from inside an `if` or `with` keeps its indentation, as dedenting would change multi-line strings.
    is_indented = text[:1] in (" ", "\t")
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | futures
    tree = compile("if 1:\n" + text if is_indented else text, file, "exec", flags, True)
    node = [node for node in _top_level(tree.body) if _defined_name(node) == source["defines"]][0]
    if source["bare"]:
        node.decorator_list = []  # type: ignore[union-attr]
    ast.increment_lineno(node, source["line"] - (2 if is_indented else 1))
    return compile(ast.Module([node], []), file, "exec", futures, True)
