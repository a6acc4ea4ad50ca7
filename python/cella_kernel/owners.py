"""Which execution the code that runs belongs to: threads, tasks and work for a pool keep the one that began them."""

from __future__ import annotations

import functools
import sys
import threading
from _thread import get_ident
from contextvars import ContextVar
from typing import Any, Callable, Set

from . import importing

# 0 where nobody knows. A task has a copy of it from whoever begins it; a thread is given it here.
execution: "ContextVar[int]" = ContextVar("cella_execution", default=0)
# The threads that the code has started and that have not ended.
living: Set[int] = set()

_OWNER = "_cella_execution"
_POOL = "concurrent.futures.thread"


def _nothing() -> None:
    pass


# Told before a thread starts.
on_start: Callable[[], None] = _nothing


def install() -> None:
    _hand_over(threading.Thread)
    if _POOL in sys.modules:
        _hand_over_work(sys.modules[_POOL])
    else:
        importing.change(_POOL, _hand_over_work)


def forget() -> None:
    """In a fork: threads stay behind."""
    living.clear()


def _hand_over(kind: Any) -> None:
    start, bootstrap = kind.start, kind._bootstrap

    @functools.wraps(start)
    def start_with_owner(self: Any) -> None:
        self.__dict__[_OWNER] = execution.get()
        on_start()
        start(self)

    @functools.wraps(bootstrap)
    def bootstrap_with_owner(self: Any) -> None:
        living.add(get_ident())
        execution.set(self.__dict__.pop(_OWNER, 0))
        try:
            bootstrap(self)
        finally:
            living.discard(get_ident())

    kind.start, kind._bootstrap = start_with_owner, bootstrap_with_owner


def _hand_over_work(module: Any) -> None:
    """Work that is handed to a pool belongs to whoever hands it over, not to whoever made the pool."""
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
