"""Finds the object that a piece of code names, without running the code's own: no calls, no properties."""

from __future__ import annotations

import ast
import builtins
import inspect
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any, Dict

# Getting these from an object runs nothing that a cell or a package has written in Python.
_HARMLESS = (
    FunctionType, BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType, ClassMethodDescriptorType,
    GetSetDescriptorType, MemberDescriptorType, classmethod, staticmethod,
)  # fmt: skip
_PLAIN_LOOKUPS = (object.__getattribute__, type.__getattribute__, ModuleType.__getattribute__)
# Packages whose properties and subscripts are quick and change nothing; `df.columns.` is worth running one.
_SAFE_LIBRARIES = frozenset(("numpy", "pandas", "pathlib", "datetime", "decimal", "fractions"))
_DISPLAYS = {ast.List: [], ast.ListComp: [], ast.Dict: {}, ast.DictComp: {}, ast.Tuple: (), ast.JoinedStr: ""}
_MISSING = object()
_MODULE = type.__dict__["__module__"]


class Unresolved(Exception):
    """The code names nothing that can be found without running it."""


def resolve(namespace: Dict[str, Any], source: str) -> Any:
    try:
        tree = ast.parse(source.strip(), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise Unresolved(source) from None
    return _value(namespace, tree.body)


def _value(namespace: Dict[str, Any], node: ast.expr) -> Any:
    if isinstance(node, ast.Name):
        for names in (namespace, vars(builtins)):
            if node.id in names:
                return names[node.id]
    elif isinstance(node, ast.Attribute):
        return _attribute(_value(namespace, node.value), node.attr)
    elif isinstance(node, ast.Subscript):
        return _item(_value(namespace, node.value), node.slice)
    elif isinstance(node, ast.Constant):
        return node.value
    elif isinstance(node, (ast.Set, ast.SetComp)):
        return set()
    elif type(node) in _DISPLAYS:
        # Only the type is asked for, so an empty one does.
        return _DISPLAYS[type(node)]
    raise Unresolved(ast.dump(node))


def _attribute(value: Any, name: str) -> Any:
    kind = type(value)
    if not is_safe_library(kind):
        found = static_attribute(value, name)
        harmless = type(found) in _HARMLESS and inspect.getattr_static(kind, "__getattribute__") in _PLAIN_LOOKUPS
        if not harmless:
            if hasattr(type(found), "__get__") and not isinstance(found, type):
                raise Unresolved(name)
            return found
    try:
        return getattr(value, name)
    except Exception:
        raise Unresolved(name) from None


def static_attribute(value: Any, name: str) -> Any:
    """What lies behind the attribute: a property itself, not its value."""
    try:
        return inspect.getattr_static(value, name)
    except Exception:  # objects with a strange `__dict__` or mro fail in their own ways
        raise Unresolved(name) from None


def _item(value: Any, index: ast.expr) -> Any:
    try:
        key = ast.literal_eval(index)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise Unresolved("subscript") from None
    kind = type(value)
    try:
        if issubclass(kind, dict) and kind.__getitem__ is dict.__getitem__:
            # `value[key]` would let a defaultdict make the key.
            found = dict.get(value, key, _MISSING)
        else:
            found = value[key] if kind in (list, tuple, str, bytes) or is_safe_library(kind) else _MISSING
    except Exception:  # no such item, said in as many ways as there are types
        found = _MISSING
    if found is _MISSING:
        raise Unresolved("subscript")
    return found


def is_safe_library(kind: type) -> bool:
    return module_of(kind).partition(".")[0] in _SAFE_LIBRARIES


def module_of(kind: type) -> str:
    """Where a type comes from, past whatever its metaclass says."""
    try:
        module = _MODULE.__get__(kind)
    except AttributeError:
        return ""  # the code deleted it
    return module if type(module) is str else ""
