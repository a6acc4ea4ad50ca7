"""Calls to the host, and its refusals as exceptions of the class that code expects."""

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
    """The host did not do what was asked. `code` says why, for programs; the text says it for people."""

    def __init__(self, message: str, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class CellaValueError(CellaError, ValueError):
    """What was given cannot be used."""


class CellaLookupError(CellaError, LookupError):
    """There is nothing of that name."""


class CellaPermissionError(CellaError, PermissionError):
    """It is not allowed here."""

    # PermissionError would make an error number and a file name of them.
    def __init__(self, message: str, code: str = "") -> None:
        PermissionError.__init__(self, message)
        self.code = code


class CellaTimeoutError(CellaError, TimeoutError):
    """It took too long."""

    def __init__(self, message: str, code: str = "") -> None:
        TimeoutError.__init__(self, message)
        self.code = code


class CellaRuntimeError(CellaError, RuntimeError):
    """It was tried, and failed."""


_CLASSES: Dict[str, Type[CellaError]] = {
    "value": CellaValueError,
    "lookup": CellaLookupError,
    "permission": CellaPermissionError,
    "timeout": CellaTimeoutError,
}
for _class in (CellaError, CellaRuntimeError, *_CLASSES.values()):
    # In a traceback the name says enough.
    _class.__module__ = "builtins"


def connect(connection: HostConnection) -> None:
    global _connection
    _connection = connection


def call(method: str, **params: Any) -> Any:
    """Asks the host and waits, in whichever thread."""
    try:
        return _reachable().call(method, params)
    except CallError as error:
        raise _refusal(error) from None


def every(method: str) -> List[Dict[str, Any]]:
    """All that the host lists, by name, in as many pages as it takes."""
    known: List[Dict[str, Any]] = []
    while True:
        page = call(method, after=known[-1]["name"] if known else "")
        known.extend(page["items"])
        if not page["more"]:
            return known


async def call_async(method: str, **params: Any) -> Any:
    """Asks the host; other tasks go on meanwhile."""
    try:
        return await _reachable().call_async(method, params)
    except CallError as error:
        raise _refusal(error) from None


def is_awaited(depth: int) -> bool:
    """Whether what the caller of the caller is given is awaited on the spot: `await tools.grep(...)`.

    So one spelling serves plain and asynchronous code: a call that is not awaited gives its value at once.
    """
    frame = sys._getframe(depth)
    code = frame.f_code.co_code
    at = frame.f_lasti + 2
    while at < len(code) and code[at] == _CACHE:
        at += 2
    return at < len(code) and code[at] == _GET_AWAITABLE


def _reachable() -> HostConnection:
    if _connection is None or not _connection.connected(os.getpid()):
        raise CellaRuntimeError("only the kernel itself can call the host, not a process that it has forked", "NO_HOST")
    return _connection


def _refusal(error: CallError) -> CellaError:
    return _CLASSES.get(error.kind, CellaRuntimeError)(str(error), error.code)
