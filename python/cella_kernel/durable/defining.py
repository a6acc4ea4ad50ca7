"""A function or class defined again, from the statement that `extracting` cut out of its cell."""

from __future__ import annotations

import __future__
import ast
from typing import Any, Dict

from .extracting import at_top, defined_name


def define(source: Dict[str, Any], namespace: Dict[str, Any]) -> Any:
    """Runs the statement, with the lines and the file name it had, and gives back what it defined."""
    code = compile_source(source)
    # Not in the namespace itself: the name that it is saved under may be another one.
    defined: Dict[str, Any] = {}
    exec(code, namespace, defined)
    return defined[source["defines"]]


def compile_source(source: Dict[str, Any]) -> Any:
    text, file = source["text"], source["file"]
    futures = 0
    for name in source["futures"]:
        futures |= getattr(__future__, name).compiler_flag
    # A statement from under an `if` or `with` keeps its indentation, as dedenting would change texts inside it.
    is_indented = text[:1] in (" ", "\t")
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | futures
    tree = compile("if 1:\n" + text if is_indented else text, file, "exec", flags, True)
    node = [node for node in at_top(tree.body) if defined_name(node) == source["defines"]][0]
    if source["bare"]:
        node.decorator_list = []  # type: ignore[union-attr]
    ast.increment_lineno(node, source["line"] - (2 if is_indented else 1))
    return compile(ast.Module([node], []), file, "exec", futures, True)
