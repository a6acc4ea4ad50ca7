"""Finds the object that an expression names without running code of the user: no calls, no properties."""

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

# Getting these from an object runs no Python code.
_HARMLESS = (
    FunctionType, BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType, ClassMethodDescriptorType,
    GetSetDescriptorType, MemberDescriptorType, classmethod, staticmethod,
)  # fmt: skip
_PLAIN_LOOKUPS = (object.__getattribute__, type.__getattribute__, ModuleType.__getattribute__)
# Packages whose properties and subscripts are fast and change nothing: they run, for completions such as `df.columns.`.
_SAFE_LIBRARIES = frozenset(("numpy", "pandas", "pathlib", "datetime", "decimal", "fractions"))
_DISPLAYS = {ast.List: [], ast.ListComp: [], ast.Dict: {}, ast.DictComp: {}, ast.Tuple: (), ast.JoinedStr: ""}
_MISSING = object()
_MODULE = type.__dict__["__module__"]


class Unresolved(Exception):
    """The object cannot be found without running code."""


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
        # Only the type matters, so an empty object is enough.
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
    """The attribute without running code: a property itself, not its value."""
    try:
        return inspect.getattr_static(value, name)
    except Exception:  # an unusual `__dict__` or mro can raise anything
        raise Unresolved(name) from None


def _item(value: Any, index: ast.expr) -> Any:
    try:
        key = ast.literal_eval(index)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise Unresolved("subscript") from None
    kind = type(value)
    try:
        if issubclass(kind, dict) and kind.__getitem__ is dict.__getitem__:
            # `value[key]` would create the key in a defaultdict.
            found = dict.get(value, key, _MISSING)
        else:
            found = value[key] if kind in (list, tuple, str, bytes) or is_safe_library(kind) else _MISSING
    except Exception:  # each type has its own exception for a missing item
        found = _MISSING
    if found is _MISSING:
        raise Unresolved("subscript")
    return found


def is_safe_library(kind: type) -> bool:
    return module_of(kind).partition(".")[0] in _SAFE_LIBRARIES


def module_of(kind: type) -> str:
    """The real module of a type, even if its metaclass defines `__module__`."""
    try:
        module = _MODULE.__get__(kind)
    except AttributeError:
        return ""  # the code has deleted it
    return module if type(module) is str else ""
