"""Requests of the host between cells: complete, inspect, isComplete, variables, usePackages."""

from __future__ import annotations

from typing import Any, Dict

# Imported in the template: inside a sandbox, a module of the same name could be a file of the code.
from .. import packages
from . import complete, describe, scanner


def answer(namespace: Dict[str, Any], method: str, params: Dict[str, Any]) -> Any:
    """Returns plain values. `cursor` counts code points of `code`."""
    if method == "complete":
        return complete.complete(namespace, params["code"], params["cursor"])
    if method == "inspect":
        return describe.inspect_at(namespace, params["code"], params["cursor"])
    if method == "isComplete":
        return scanner.is_complete(params["code"])
    if method == "variables":
        return describe.list_variables(namespace)
    if method == "usePackages":
        packages.use(params["folder"])
        return None
    raise ValueError("there is no introspection method %r" % (method,))
