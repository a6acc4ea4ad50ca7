"""Completion at the cursor: names, attributes, keys of dictionaries, and modules to import.

The names in a module are read from its source on disk, so that completion imports no module that has source.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import keyword
import pkgutil
import sys
from importlib.machinery import BuiltinImporter, ModuleSpec, PathFinder, SourceFileLoader
from itertools import islice
from types import ModuleType
from typing import Any, Dict, Iterable, List, Optional

from ..cell_sources import nested_bodies
from .resolve import Unresolved, is_safe_library, module_of, resolve, static_attribute
from .scanner import Scan, Token, Unfinished, primary_start, scan, statement

_MOST_MATCHES = 500
_LONGEST_MATCH = 1000
_MOST_KEYS = 100_000
_KEYWORDS = frozenset(keyword.kwlist)
_SOFT_KEYWORDS = frozenset(getattr(keyword, "softkwlist", ())) - {"_"}


def complete(namespace: Dict[str, Any], code: str, cursor: int) -> Dict[str, Any]:
    text = code[: max(0, cursor)]
    found = scan(text)
    if found.unfinished is not None:
        return _in_unfinished(namespace, text, found, found.unfinished)
    tokens = found.tokens
    prefix = ""
    if tokens and tokens[-1].kind in ("name", "number") and tokens[-1].end == len(text):
        prefix = tokens[-1].text
        if tokens[-1].kind == "number":
            return _answer({}, prefix)
        tokens = tokens[:-1]
    imports = _in_import(statement(tokens), prefix)
    if imports is not None:
        return _answer(imports, prefix)
    if tokens and tokens[-1].text == ".":
        return _attributes(namespace, text, tokens, prefix)
    if not prefix and tokens and tokens[-1].text == "[":
        keys = _keys(namespace, text, tokens[:-1])
        if keys:
            return _answer({repr(key): "key" for key in keys}, "")
    return _answer(_names(namespace), prefix)


def _answer(kinds: Dict[str, str], prefix: str) -> Dict[str, Any]:
    """The candidates that begin with the prefix."""
    names = sorted(name for name in kinds if _fits(name, kinds[name], prefix))[:_MOST_MATCHES]
    return {"matches": [{"text": name, "type": kinds[name]} for name in names], "prefix": prefix}


def _fits(name: str, kind: str, prefix: str) -> bool:
    if not name.startswith(prefix) or len(name) > _LONGEST_MATCH:
        return False
    return kind == "key" or prefix.startswith("_") or not name.startswith("_")


def _names(namespace: Dict[str, Any]) -> Dict[str, str]:
    kinds = {name: "keyword" for name in _SOFT_KEYWORDS}
    for names in (vars(builtins), namespace):
        kinds.update((name, _kind(value)) for name, value in list(names.items()) if type(name) is str)
    kinds.update((name, "keyword") for name in _KEYWORDS)
    return kinds


def _kind(value: Any, otherwise: str = "instance") -> str:
    kind = type(value)
    if issubclass(kind, ModuleType):
        return "module"
    if issubclass(kind, type):
        return "class"
    if kind in (classmethod, staticmethod):
        return "function"
    # Callable objects of libraries wrap functions; those of the code's classes need not.
    return "function" if callable(value) and module_of(kind) != "__main__" else otherwise


def _attributes(namespace: Dict[str, Any], text: str, tokens: List[Token], prefix: str) -> Dict[str, Any]:
    value = _operand(namespace, text, tokens[:-1])
    names = sorted(name for name in _dir(value) if _fits(name, "attribute", prefix)) if value is not _NOTHING else []
    return _answer({name: _attribute_kind(value, name) for name in names[:_MOST_MATCHES]}, prefix)


def _attribute_kind(value: Any, name: str) -> str:
    try:
        return _kind(static_attribute(value, name), "attribute")
    except Unresolved:
        return "attribute"  # created on access


def _dir(value: Any) -> List[str]:
    try:
        names: Iterable[Any] = dir(value)
    except Exception:  # raised by a `__dir__` or `__getattribute__` of the code
        kind = type(value)
        names = type.__dir__(value if issubclass(kind, type) else kind)
    return [name for name in names if type(name) is str]


_NOTHING = object()


def _operand(namespace: Dict[str, Any], text: str, tokens: List[Token]) -> Any:
    """The object that the last tokens name, or _NOTHING if finding it would run code."""
    start = primary_start(tokens, len(tokens) - 1, _KEYWORDS - {"None", "True", "False"})
    if start is None:
        return _NOTHING
    try:
        return resolve(namespace, text[tokens[start].start : tokens[-1].end])
    except Unresolved:
        return _NOTHING


def _keys(namespace: Dict[str, Any], text: str, tokens: List[Token]) -> List[str]:
    value = _operand(namespace, text, tokens)
    kind = type(value)
    try:
        if issubclass(kind, dict):
            keys: Iterable[Any] = dict.keys(value)
        elif hasattr(kind, "_ipython_key_completions_"):
            keys = value._ipython_key_completions_()
        elif is_safe_library(kind) and hasattr(kind, "keys"):
            keys = value.keys()
        else:
            return []
        return [key for key in islice(keys, _MOST_KEYS) if type(key) is str]
    except Exception:  # raised by a method of the code, or as another thread changes the keys
        return []


def _in_unfinished(namespace: Dict[str, Any], text: str, found: Scan, open_end: Unfinished) -> Dict[str, Any]:
    if open_end.kind == "comment":
        return _answer({}, "")
    content = open_end.content
    if "f" in open_end.prefix or "t" in open_end.prefix:
        # Doubled braces are text; code follows the last single one.
        field = content.replace("{{", "  ").rpartition("{")
        if field[1] and "}" not in field[2]:
            return complete(namespace, field[2], len(field[2]))
        return _answer({}, "")
    if found.tokens and found.tokens[-1].text == "[" and not open_end.prefix:
        keys = _keys(namespace, text, found.tokens[:-1])
        return _answer({_quoted(key, open_end.quote): "key" for key in keys}, content)
    return _answer({}, "")


def _quoted(key: str, quote: str) -> str:
    """The key as written between these quotes."""
    return repr(key + "'\"")[1:-4].replace("\\'", "'").replace(quote[0], "\\" + quote[0])


def _in_import(tokens: List[Token], prefix: str) -> Optional[Dict[str, str]]:
    """Candidates in an import statement; None for other statements. `tokens` are those before the prefix."""
    words = [token.text for token in tokens]
    if not words or words[0] not in ("import", "from"):
        return None
    if words[1:2] == ["."]:
        return {}  # a relative import: a cell is in no package
    if words[0] == "import":
        words = words[len(words) - words[::-1].index(",") :] if "," in words else words[1:]
        return _modules(words)
    if "import" not in words:
        return _modules(words[1:])
    split = words.index("import")
    if words[split + 1 :] and words[-1] not in (",", "("):
        return {"as": "keyword"}
    return _members("".join(words[1:split]))


def _modules(words: List[str]) -> Dict[str, str]:
    if words and words[-1] != ".":
        return {"as": "keyword", "import": "keyword"}
    package = "".join(words).rstrip(".")
    return {name: "module" for name in _modules_in(package) if "." not in name}


def _members(module: str) -> Dict[str, str]:
    loaded = sys.modules.get(module)
    kinds = {name: "module" for name in _modules_in(module)} if module.strip(".") else {}
    if loaded is None:
        kinds.update(_names_in(module))
    else:
        kinds.update((name, _attribute_kind(loaded, name)) for name in _dir(loaded))
    return kinds


_LARGEST_SOURCE = 4 << 20
# How far `from .part import *` is followed.
_DEEPEST = 3


def _modules_in(package: str) -> List[str]:
    """Names of the modules in a package; of all top-level modules if `package` is empty."""
    if not package:
        found = {module.name for module in pkgutil.iter_modules()}
        return sorted(found.union(sys.builtin_module_names))
    prefix = package + "."
    known = {name[len(prefix) :] for name in list(sys.modules) if name.startswith(prefix)}
    names = {name for name in known if "." not in name}
    folders = _folders(package)
    if folders:
        names.update(module.name for module in pkgutil.iter_modules(folders))
    return sorted(names)


def _names_in(module: str, depth: int = 0) -> Dict[str, str]:
    """The names that `from module import` can bind, with their kinds, for a module that is not imported yet."""
    spec = _spec(module)
    if spec is None or depth > _DEEPEST:
        return {}
    if not isinstance(spec.loader, SourceFileLoader):
        return _names_in_compiled(module)
    try:
        with open(spec.loader.path, "rb") as file:
            tree = ast.parse(file.read(_LARGEST_SOURCE))
    except (OSError, SyntaxError, ValueError, MemoryError, RecursionError):
        return {}
    found: Dict[str, str] = {}
    package = module if spec.submodule_search_locations is not None else module.rpartition(".")[0]
    _collect(tree.body, package, depth, found)
    return found


def _names_in_compiled(module: str) -> Dict[str, str]:
    """For a module without source. A top-level one is imported, which runs no Python code."""
    if "." in module:
        return {}
    try:
        return {name: "attribute" for name in dir(importlib.import_module(module))}
    except Exception:
        return {}


def _collect(body: List[Any], package: str, depth: int, found: Dict[str, str]) -> None:
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found[node.name] = "function"
        elif isinstance(node, ast.ClassDef):
            found[node.name] = "class"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                found[alias.asname or alias.name.partition(".")[0]] = "module"
        elif isinstance(node, ast.ImportFrom):
            _collect_imported(node, package, depth, found)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                for part in ast.walk(target):
                    if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                        found[part.id] = "attribute"
        else:
            for inner in nested_bodies(node):
                _collect(inner, package, depth, found)


def _collect_imported(node: ast.ImportFrom, package: str, depth: int, found: Dict[str, str]) -> None:
    for alias in node.names:
        if alias.name != "*":
            found[alias.asname or alias.name] = "attribute"
            continue
        origin = node.module or ""
        if node.level:
            parent = package.split(".")
            origin = ".".join(parent[: len(parent) - node.level + 1] + ([origin] if origin else []))
        for name, kind in _names_in(origin, depth + 1).items():
            if not name.startswith("_"):
                found[name] = kind


def _folders(package: str) -> Optional[List[str]]:
    module = sys.modules.get(package)
    try:
        if module is not None:
            return list(module.__path__)
        spec = _spec(package)
        return list(spec.submodule_search_locations or ()) if spec is not None else None
    except Exception:  # not a package, or a module that has replaced itself
        return None


def _spec(module: str) -> Optional[ModuleSpec]:
    """Like `importlib.util.find_spec`, which would import the packages on the way."""
    spec: Optional[ModuleSpec] = None
    folders: Optional[List[str]] = None
    name = ""
    try:
        for part in module.split("."):
            name = name + "." + part if name else part
            spec = PathFinder.find_spec(name, folders)
            if spec is None and folders is None:
                spec = BuiltinImporter.find_spec(name)
            if spec is None:
                return None
            folders = list(spec.submodule_search_locations or ())
    except Exception:  # a finder of a package can raise anything
        return None
    return spec
