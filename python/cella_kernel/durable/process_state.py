"""State of the process that is saved with the variables: modules, the working folder and random number generators."""

from __future__ import annotations

import os
import pickle
import sys
from importlib import import_module
from types import ModuleType
from typing import Any, Dict


def describe_module(module: ModuleType) -> Dict[str, Any]:
    """The name of the module and its loaded public submodules, as `import a.b` binds only `a`."""
    prefix = module.__name__ + "."
    loaded = [name for name in list(sys.modules) if type(name) is str and name.startswith(prefix) and "._" not in name]
    return {"module": module.__name__, "submodules": loaded}


def import_again(described: Dict[str, Any]) -> Any:
    module = import_module(described["module"])
    for name in described["submodules"]:
        if name not in sys.modules:
            try:
                import_module(name)
            except Exception:
                pass  # code that uses the submodule gets the error
    return module


def describe_folder() -> Dict[str, Any]:
    """The working folder, and the entries of sys.path inside it. Packages come from the environment."""
    folder = os.getcwd()
    inside = [entry for entry in sys.path if type(entry) is str and entry and _is_inside(entry, folder)]
    return {"folder": folder, "path": inside}


def enter_folder(described: Dict[str, Any]) -> None:
    try:
        os.chdir(described["folder"])
    except OSError:
        return  # the folder is not on this machine: keeps the current one
    sys.path[:0] = [entry for entry in described["path"] if entry not in sys.path]


def _is_inside(entry: str, folder: str) -> bool:
    return os.path.abspath(os.path.join(folder, entry)).startswith(folder.rstrip(os.sep) + os.sep)


def random_states() -> bytes:
    states: Dict[str, Any] = {}
    for name, read in (("random", "getstate"), ("numpy.random", "get_state")):
        module = sys.modules.get(name)
        if module is not None:
            states[name] = getattr(module, read)()
    return pickle.dumps(states, 5)


def set_random_states(data: Any) -> None:
    setters = {"random": "setstate", "numpy.random": "set_state"}
    for name, state in pickle.loads(data).items():
        try:
            getattr(import_module(name), setters[name])(state)
        except Exception:
            pass  # the package is missing or has another version
