"""Replacements for what works differently in Pyodide: modules that reach the host or need processes, and sleeping.

Blocking modules gives well-meant code a clear error; it is no security boundary. There are no threads, so time.sleep and
event loops wait in poll. The worker has poll wait for the host, so that an interrupt ends it and frames arrive.
"""

from __future__ import annotations

import asyncio
import asyncio.selector_events
import errno
import importlib.abc
import os
import select
import sys
import time
from time import monotonic
from typing import Any

_BLOCKED = ("js", "pyodide_js", "_pyodide", "pyodide", "_pyodide_core", "pyodide_ffi", "ctypes", "_ctypes", "_posixsubprocess")
_PROCESSES = ("fork", "forkpty", "system", "popen", "posix_spawn", "posix_spawnp", "execv", "execve", "killpg")


class _BlockedModules(importlib.abc.MetaPathFinder):
    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.partition(".")[0] in _BLOCKED:
            raise ImportError("%s is not available in the in-process executor" % name, name=name)


def block_host_access() -> None:
    for name in list(sys.modules):
        if name.partition(".")[0] in _BLOCKED:
            del sys.modules[name]
    sys.meta_path.insert(0, _BlockedModules())
    sys.meta_path[:] = [finder for finder in sys.meta_path if not _is_from_pyodide(finder)]
    for name in _PROCESSES:
        if hasattr(os, name):
            setattr(os, name, _refusal(name))


def _is_from_pyodide(finder: Any) -> bool:
    kind = finder if isinstance(finder, type) else type(finder)
    return kind.__module__.startswith("_pyodide")


def _refusal(name: str) -> Any:
    def refuse(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSYS, "os.%s is not available in the in-process executor: it has no processes" % name)

    refuse.__name__ = name
    return refuse


# poll takes milliseconds in an int.
_LONGEST_S = 2_000_000.0


class _NoSocket:
    """In place of the socket by which another thread would wake a loop: there are no other threads."""

    def fileno(self) -> int:
        return 0

    def close(self) -> None:
        pass


def _make_self_pipe(self: Any) -> None:
    self._ssock = self._csock = _NoSocket()
    self._internal_fds += 1


def _close_self_pipe(self: Any) -> None:
    self._ssock = self._csock = None
    self._internal_fds -= 1


def sleep(seconds: float, /) -> None:
    """Delay execution for a given number of seconds. The argument may be a floating-point number."""
    if not hasattr(seconds, "__index__") and not hasattr(seconds, "__float__"):
        raise TypeError("'%s' object cannot be interpreted as an integer or float" % type(seconds).__name__)
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    until = monotonic() + seconds
    nothing = select.poll()
    while True:
        left = until - monotonic()
        if left <= 0:
            return
        nothing.poll(min(left, _LONGEST_S) * 1000)


def install_sleep() -> None:
    # Pyodide installs an event loop of its own, which counts as running.
    asyncio._set_running_loop(None)
    events: Any = asyncio.events
    getattr(events, "_set_event_loop_policy", asyncio.set_event_loop_policy)(None)
    asyncio.set_event_loop(None)
    asyncio.run = asyncio.runners.run
    loop: Any = asyncio.selector_events.BaseSelectorEventLoop
    loop._make_self_pipe = _make_self_pipe
    loop._close_self_pipe = _close_self_pipe
    loop._write_to_self = lambda self: None
    sleep.__module__ = "time"
    time.sleep = sleep
