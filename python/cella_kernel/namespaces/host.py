"""Calls to the host. A refusal becomes an exception of a class that code can catch."""

from __future__ import annotations

import os
import sys
from opcode import opmap
from typing import Any, Dict, List, Optional, Type

from ..host_connection import CallError, HostConnection

_connection: Optional[HostConnection] = None
_GET_AWAITABLE = opmap["GET_AWAITABLE"]
_CACHE = opmap.get("CACHE", 0)


class CellaError(Exception):
    """The host refused a call, or it failed. `code` is the error code; the text explains it."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class CellaValueError(CellaError, ValueError):
    """An argument cannot be used."""


class CellaLookupError(CellaError, LookupError):
    """Nothing has this name."""


class CellaPermissionError(CellaError, PermissionError):
    """The call is not allowed."""

    # Passed separately: PermissionError would take two arguments for an error number and a text.
    def __init__(self, message: str, code: str = "") -> None:
        PermissionError.__init__(self, message)
        self.code = code


class CellaTimeoutError(CellaError, TimeoutError):
    """The call took too long."""

    def __init__(self, message: str, code: str = "") -> None:
        TimeoutError.__init__(self, message)
        self.code = code


class CellaRuntimeError(CellaError, RuntimeError):
    """The call was made, and failed."""


_CLASSES: Dict[str, Type[CellaError]] = {
    "value": CellaValueError,
    "lookup": CellaLookupError,
    "permission": CellaPermissionError,
    "timeout": CellaTimeoutError,
}
for _class in (CellaError, CellaRuntimeError, *_CLASSES.values()):
    # So that tracebacks show only the name of the class.
    _class.__module__ = "builtins"


def connect(connection: HostConnection) -> None:
    global _connection
    _connection = connection


def call(method: str, **params: Any) -> Any:
    """Calls the host and waits for its reply. Any thread can call this."""
    try:
        return _reachable().call(method, params)
    except CallError as error:
        raise _refusal(error) from None


def list_all(method: str) -> List[Dict[str, Any]]:
    """All items of a list of the host, sorted by name. Fetches all pages."""
    items: List[Dict[str, Any]] = []
    while True:
        page = call(method, after=items[-1]["name"] if items else "")
        items.extend(page["items"])
        if not page["more"]:
            return items


async def call_async(method: str, **params: Any) -> Any:
    """Calls the host; other tasks run meanwhile."""
    try:
        return await _reachable().call_async(method, params)
    except CallError as error:
        raise _refusal(error) from None


def is_awaited(depth: int) -> bool:
    """Whether the call in the frame at this depth is awaited directly, as in `await tools.grep(...)`.

    So the same call works in plain and in asynchronous code: a call that is not awaited returns its value.
    """
    frame = sys._getframe(depth)
    code = frame.f_code.co_code
    at = frame.f_lasti + 2
    while at < len(code) and code[at] == _CACHE:
        at += 2
    return at < len(code) and code[at] == _GET_AWAITABLE


def _reachable() -> HostConnection:
    if _connection is None or not _connection.connected(os.getpid()):
        raise CellaRuntimeError("only the kernel can call the host, not a process that it has forked", "NO_HOST")
    return _connection


def _refusal(error: CallError) -> CellaError:
    return _CLASSES.get(error.kind, CellaRuntimeError)(str(error), error.code)
