"""The package set of this kernel: a folder that the host has filled, found by imports and by child processes."""

from __future__ import annotations

import importlib
import os
import site
import sys
from typing import Dict, List, Optional

_added: List[str] = []
_current: Optional[str] = None


def use(folder: Optional[str]) -> None:
    """Replaces the previous set. Its .pth files run here, inside the sandbox, as in any environment."""
    global _current
    if folder == _current:
        return
    for path in _added:
        if path in sys.path:
            sys.path.remove(path)
    _added.clear()
    _leave(_current)
    _current = folder
    if folder is not None and os.path.isdir(folder):
        before = list(sys.path)
        site.addsitedir(folder)
        _added.extend(path for path in sys.path if path not in before)
        # Before the interpreter's packages, so that the requested versions win, and after the standard library.
        at = next((index for index, path in enumerate(before) if path.endswith("-packages")), len(before))
        sys.path[:] = [*before[:at], *_added, *before[at:]]
        os.environ.update(variables(folder))
    importlib.invalidate_caches()


def variables(folder: Optional[str]) -> Dict[str, str]:
    """The environment variables by which a program finds the set, added to their present values."""
    if folder is None:
        return {}
    places = (("PYTHONPATH", folder), ("PATH", os.path.join(folder, "bin")))
    return {name: os.pathsep.join(filter(None, (os.environ.get(name), path))) for name, path in places}


def _leave(folder: Optional[str]) -> None:
    if folder is None:
        return
    for name, path in (("PYTHONPATH", folder), ("PATH", os.path.join(folder, "bin"))):
        others = [part for part in os.environ.get(name, "").split(os.pathsep) if part and part != path]
        os.environ[name] = os.pathsep.join(others)
        if not others:
            del os.environ[name]
