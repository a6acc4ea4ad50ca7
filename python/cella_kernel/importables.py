"""What can stand after `import` and `from`: found on disk, so that asking imports nothing that has source."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import sys
from importlib.machinery import BuiltinImporter, ModuleSpec, PathFinder, SourceFileLoader
from typing import Any, Dict, List, Optional

_LARGEST_SOURCE = 4 << 20
# How far `from .part import *` is followed.
_DEEPEST = 3


def modules_in(package: str) -> List[str]:
    """Names of the modules in a dotted package; of all top-level modules where it is empty."""
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


def names_in(module: str, depth: int = 0) -> Dict[str, str]:
    """Names that `from module import` can bind, each with its kind, of a module that is not imported yet."""
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
    """Has no source to read. Of a top-level one, importing it is harmless, since no Python code runs."""
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
            for field in ("body", "orelse", "finalbody"):
                _collect(getattr(node, field, None) or [], package, depth, found)
            for handler in getattr(node, "handlers", None) or []:
                _collect(handler.body, package, depth, found)


def _collect_imported(node: ast.ImportFrom, package: str, depth: int, found: Dict[str, str]) -> None:
    for alias in node.names:
        if alias.name != "*":
            found[alias.asname or alias.name] = "attribute"
            continue
        origin = node.module or ""
        if node.level:
            parent = package.split(".")
            origin = ".".join(parent[: len(parent) - node.level + 1] + ([origin] if origin else []))
        for name, kind in names_in(origin, depth + 1).items():
            if not name.startswith("_"):
                found[name] = kind


def _folders(package: str) -> Optional[List[str]]:
    module = sys.modules.get(package)
    try:
        if module is not None:
            return list(module.__path__)
        spec = _spec(package)
        return list(spec.submodule_search_locations or ()) if spec is not None else None
    except Exception:  # not a package, or a module that replaced itself with something else
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
    except Exception:  # finders of others may fail in any way
        return None
    return spec
