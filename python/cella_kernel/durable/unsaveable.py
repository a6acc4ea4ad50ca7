"""Objects that cannot be saved because they belong to this process: recognized by type and described in words."""

from __future__ import annotations

from typing import Any, Optional


class Unsaveable(Exception):
    """`words` say what cannot be saved. `culprit` is that object, to distinguish it from an object that contains it."""

    def __init__(self, words: str, culprit: Any = None) -> None:
        super().__init__(words)
        self.words = words
        self.culprit = culprit


# Names, so that nothing needs to be imported. Some of these could be pickled, but would be restored as something else.
_WORDS = {
    "_io.FileIO": "an open file",
    "_io.TextIOWrapper": "an open file",
    "_io.BufferedReader": "an open file",
    "_io.BufferedWriter": "an open file",
    "_io.BufferedRandom": "an open file",
    "_io.BufferedRWPair": "an open file",
    "_socket.socket": "a socket",
    "_ssl._SSLSocket": "a socket",
    "mmap.mmap": "a memory-mapped file",
    "numpy.memmap": "a memory-mapped file",
    "builtins.memoryview": "a memoryview",
    "builtins.generator": "a generator",
    "builtins.coroutine": "a coroutine",
    "builtins.async_generator": "an asynchronous generator",
    "builtins.frame": "a frame",
    "builtins.traceback": "a traceback",
    "builtins.weakref": "a weak reference",
    "builtins.weakproxy": "a weak reference",
    "builtins.weakcallableproxy": "a weak reference",
    "weakref.ReferenceType": "a weak reference",
    "weakref.ProxyType": "a weak reference",
    "weakref.CallableProxyType": "a weak reference",
    "weakref.finalize": "a finalizer",
    "_thread._local": "thread-local data",
    "threading.Thread": "a thread",
    "subprocess.Popen": "a subprocess",
    "concurrent.futures._base.Executor": "an executor",
    "concurrent.futures._base.Future": "a future",
    "_asyncio.Task": "an asyncio task",
    "_asyncio.Future": "an asyncio future",
    "asyncio.tasks.Task": "an asyncio task",
    "asyncio.futures.Future": "an asyncio future",
    "asyncio.events.AbstractEventLoop": "an event loop",
    "asyncio.events.Handle": "a callback of an event loop",
    "selectors.BaseSelector": "a selector",
    "sqlite3.Connection": "a database connection",
    "sqlite3.Cursor": "a database cursor",
    "tempfile.TemporaryDirectory": "a temporary folder",
    "builtins.ContextVar": "a context variable",
    "_contextvars.ContextVar": "a context variable",
    "ctypes.CDLL": "a loaded library",
}
_ELSEWHERE = "multiprocessing."


def words_for(kind: type) -> Optional[str]:
    """What an instance of this type is, if it cannot be saved; else None."""
    if issubclass(kind, BaseException):
        return None
    for parent in kind.__mro__:
        name = "%s.%s" % (parent.__module__, parent.__qualname__)
        if name in _WORDS:
            return _WORDS[name]
        if name.startswith(_ELSEWHERE):
            return "an object of %s" % parent.__module__
    return None


def describe(value: Any, words: str) -> str:
    """The words, with the name of an open file."""
    name = getattr(value, "name", None) if words == "an open file" else None
    return "%s (%r)" % (words, name) if type(name) is str else words


def reason(error: BaseException, value: Any) -> str:
    """Why `value` could not be saved, as text for users."""
    if isinstance(error, Unsaveable):
        if error.culprit is value:
            return "%s cannot be saved" % error.words
        return "it contains %s, which cannot be saved" % error.words
    return describe_error(error)


def describe_error(error: BaseException) -> str:
    """An exception on one short line, even if its `__str__` fails."""
    name = type.__dict__["__name__"].__get__(type(error))
    try:
        text = str.__str__(str(error)).strip()
    except BaseException:
        text = ""
    line = text.splitlines()[0] if text else ""
    return "%s: %s" % (name, line[:300]) if line else name
