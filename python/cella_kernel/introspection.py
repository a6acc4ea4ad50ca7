"""Questions between cells: complete, inspect, is-complete, variables; and which packages to use from here on."""

from __future__ import annotations

from typing import Any, Dict

# All parts load with the template: inside a sandbox, a module of this name could be the code's own file.
from . import completeness, completion, inspection, packages, variables


def answer(namespace: Dict[str, Any], method: str, params: Dict[str, Any]) -> Any:
    """Plain values only. `cursor` counts code points of `code`."""
    if method == "complete":
        return completion.complete(namespace, params["code"], params["cursor"])
    if method == "inspect":
        return inspection.inspect_at(namespace, params["code"], params["cursor"])
    if method == "isComplete":
        return completeness.is_complete(params["code"])
    if method == "variables":
        return variables.list_variables(namespace)
    if method == "usePackages":
        packages.use(params["folder"])
        return None
    raise ValueError("there is no introspection method %r" % (method,))
