"""Waiting without threads: time.sleep and event loops go through poll, which the worker makes wait for the host.

So an interrupt ends them, and the host's frames are heard meanwhile.
"""

from __future__ import annotations

import asyncio
import asyncio.selector_events
import select
import time
from time import monotonic
from typing import Any

# poll takes milliseconds in an int.
_LONGEST_S = 2_000_000.0


class _Nothing:
    """In the place of the socket that would wake a loop up: there is no other thread that could."""

    def fileno(self) -> int:
        return 0

    def close(self) -> None:
        pass


def _make_self_pipe(self: Any) -> None:
    self._ssock = self._csock = _Nothing()
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
    nobody = select.poll()
    while True:
        left = until - monotonic()
        if left <= 0:
            return
        nobody.poll(min(left, _LONGEST_S) * 1000)


def install() -> None:
    # Pyodide has a loop of its own, which says of itself that it runs.
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
