"""What reaches the host from inside, or cannot work here, says so. It keeps honest code from mistakes; it is no fence."""

from __future__ import annotations

import errno
import importlib.abc
import os
import sys
from typing import Any

_BARRED = ("js", "pyodide_js", "_pyodide", "pyodide", "_pyodide_core", "pyodide_ffi", "ctypes", "_ctypes", "_posixsubprocess")
_PROCESSES = ("fork", "forkpty", "system", "popen", "posix_spawn", "posix_spawnp", "execv", "execve", "killpg")


class _Bar(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.partition(".")[0] in _BARRED:
            raise ImportError("%s is not available in the in-process executor" % name, name=name)


def install() -> None:
    for name in list(sys.modules):
        if name.partition(".")[0] in _BARRED:
            del sys.modules[name]
    sys.meta_path.insert(0, _Bar())
    sys.meta_path[:] = [finder for finder in sys.meta_path if not _is_pyodides(finder)]
    for name in _PROCESSES:
        if hasattr(os, name):
            setattr(os, name, _refusal(name))


def _is_pyodides(finder: Any) -> bool:
    kind = finder if isinstance(finder, type) else type(finder)
    return kind.__module__.startswith("_pyodide")


def _refusal(name: str) -> Any:
    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSYS, "os.%s is not available in the in-process executor: it has no processes" % name)

    refuse.__name__ = name
    return refuse
