"""The execution that the running code belongs to. Threads, tasks and pool work keep that of the code that started them.

Modules that only user code imports are patched when it imports them.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
import threading
from _thread import get_ident
from contextvars import ContextVar
from typing import Any, Callable, Set

# 0 if unknown. A task copies it from the code that starts it; for threads, this module copies it.
execution: "ContextVar[int]" = ContextVar("cella_execution", default=0)
# Running threads that the code has started.
live_threads: Set[int] = set()

_OWNER = "_cella_execution"
_POOL = "concurrent.futures.thread"


def _no_op() -> None:
    pass


# Called before a thread starts.
on_start: Callable[[], None] = _no_op


def install() -> None:
    _track_threads(threading.Thread)
    if _POOL in sys.modules:
        _track_pool_work(sys.modules[_POOL])
    else:
        change_on_import(_POOL, _track_pool_work)


def forget() -> None:
    """In a fork, which has none of the threads."""
    live_threads.clear()


def _track_threads(kind: Any) -> None:
    start, bootstrap = kind.start, kind._bootstrap

    @functools.wraps(start)
    def start_with_owner(self: Any) -> None:
        self.__dict__[_OWNER] = execution.get()
        on_start()
        start(self)

    @functools.wraps(bootstrap)
    def bootstrap_with_owner(self: Any) -> None:
        live_threads.add(get_ident())
        execution.set(self.__dict__.pop(_OWNER, 0))
        try:
            bootstrap(self)
        finally:
            live_threads.discard(get_ident())

    kind.start, kind._bootstrap = start_with_owner, bootstrap_with_owner


def _track_pool_work(module: Any) -> None:
    """Work in a pool belongs to the execution that submits it, not to the one that has created the pool."""
    item = getattr(module, "_WorkItem", None)
    if item is None:
        return
    init, run = item.__init__, item.run

    @functools.wraps(init)
    def init_with_owner(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        self.__dict__[_OWNER] = execution.get()

    @functools.wraps(run)
    def run_with_owner(self: Any, *args: Any) -> None:
        token = execution.set(self.__dict__.get(_OWNER, 0))
        try:
            run(self, *args)
        finally:
            execution.reset(token)

    item.__init__, item.run = init_with_owner, run_with_owner


class _ImportHook:
    """On sys.meta_path until its module is imported."""

    def __init__(self, name: str, change: Callable[[Any], None]) -> None:
        self._name = name
        self._change = change

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self._name:
            return None
        sys.meta_path.remove(self)  # type: ignore[arg-type]
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                load(module)
                self._change(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def change_on_import(name: str, how: Callable[[Any], None]) -> None:
    sys.meta_path.insert(0, _ImportHook(name, how))  # type: ignore[arg-type]
