"""What is around the names at one moment: folder, environment, random numbers, and which modules are there."""

from __future__ import annotations

import builtins
import os
import signal
import sys
from types import ModuleType
from typing import Any, Dict, Iterator

_LIBRARY = ("/lib/python", "<frozen", "/lib/cella")


def is_of_the_code(file: Any) -> bool:
    """Whether a module or function comes from the workspace or a package set, not from Python's own library."""
    return type(file) is str and not file.startswith(_LIBRARY)


def _put_names_back(present: Dict[str, Any], names: Dict[str, Any]) -> None:
    """One by one: all of Python uses them meanwhile."""
    for name in present.keys() - names.keys():
        del present[name]
    for name, value in names.items():
        if present.get(name, _umask) is not value:
            present[name] = value


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


class Around:
    def __init__(self) -> None:
        self._folder = os.getcwd()
        self._environment = dict(os.environ)
        self._lists = [(whole, list(whole)) for whole in (sys.path, sys.argv, sys.meta_path, sys.path_hooks)]
        self._builtins = dict(vars(builtins))
        self._streams = sys.stdin, sys.stdout, sys.stderr
        self._depth = sys.getrecursionlimit()
        self._mask = _umask()
        self._handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
        decimal = sys.modules.get("decimal")
        self._decimal = decimal.getcontext().copy() if decimal is not None else None
        self._modules = dict(sys.modules)
        random = sys.modules.get("random")
        self._random = random.getstate() if random is not None else None

    def modules(self) -> Iterator[ModuleType]:
        for module in self._modules.values():
            if type(module) is ModuleType and is_of_the_code(vars(module).get("__file__")):
                yield module

    def put_back(self) -> None:
        # First of all: what follows uses them.
        _put_names_back(vars(builtins), self._builtins)
        try:
            os.chdir(self._folder)
        except OSError:
            pass  # it has been removed, and files are nothing that is put back
        if dict(os.environ) != self._environment:
            os.environ.clear()
            os.environ.update(self._environment)
        for whole, content in self._lists:
            whole[:] = content  # type: ignore[index]
        sys.stdin, sys.stdout, sys.stderr = self._streams
        sys.setrecursionlimit(self._depth)
        os.umask(self._mask)
        for number, handler in self._handlers.items():
            if handler is not None and signal.getsignal(number) is not handler:
                signal.signal(number, handler)
        if self._decimal is not None:
            sys.modules["decimal"].setcontext(self._decimal.copy())
        self._put_modules_back()
        random = sys.modules.get("random")
        if random is not None and self._random is not None:
            random.setstate(self._random)

    def _put_modules_back(self) -> None:
        """Those that were imported since are read anew when they are imported again."""
        for name, module in list(sys.modules.items()):
            if name not in self._modules and type(getattr(module, "__file__", None)) is str:
                del sys.modules[name]
        for name, module in self._modules.items():
            sys.modules.setdefault(name, module)
