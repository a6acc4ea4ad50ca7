"""A snapshot without a fork: records what the variables contain, and restores it into the same objects.

It does not cover all memory. It restores built-in containers; objects, classes and functions that cells have created;
modules from outside the standard library; and the state of the process: folder, environment, random numbers and loaded
modules. It does not restore the contents of libraries' own objects, iterators, files and tasks.
"""

from __future__ import annotations

import builtins
import os
import signal
import sys
from array import array
from collections import OrderedDict, deque
from types import (
    BuiltinMethodType,
    CellType,
    FunctionType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any, Callable, Dict, Iterable, Iterator, List, Set, Tuple

_ATOMS = frozenset((int, float, complex, bool, str, bytes, range, type(None), type(Ellipsis), BuiltinMethodType))
_NOT_OURS = ("__dict__", "__weakref__")
_EMPTY = object()
_module_of = type.__dict__["__module__"].__get__
_vars_of = type.__dict__["__dict__"].__get__
_mro_of = type.__dict__["__mro__"].__get__

_Undo = Callable[[], None]


class UndoLog:
    def __init__(self, namespace: Dict[str, Any]) -> None:
        self._undo: List[_Undo] = []
        # Objects that were visited, kept alive so that no other object gets the same id.
        self._seen: Dict[int, Any] = {}
        self._waiting: List[Any] = []
        self._process = _ProcessState()
        self._visit(namespace)
        for module in self._process.modules():
            self._visit(vars(module))
        while self._waiting:
            self._record(self._waiting.pop())
        self._seen = {}

    def restore(self) -> None:
        for undo in self._undo:
            undo()
        self._process.restore()

    def _visit(self, value: Any) -> None:
        if type(value) not in _ATOMS and id(value) not in self._seen:
            self._seen[id(value)] = value
            self._waiting.append(value)

    def _visit_all(self, values: Iterable[Any], kinds: Set[type]) -> None:
        # Skips a long list of numbers at once.
        if not kinds <= _ATOMS:
            for value in values:
                self._visit(value)

    def _record(self, value: Any) -> None:
        kind = type(value)
        mro = _mro_of(kind)
        if dict in mro:
            self._record_dict(value, OrderedDict if OrderedDict in mro else dict)
        elif list in mro:
            items = list.copy(value)
            self._undo.append(lambda: list.__setitem__(value, slice(None), items))
            self._visit_all(items, set(map(type, items)))
        elif set in mro:
            members = set.copy(value)
            self._undo.append(lambda: (set.clear(value), set.update(value, members)))  # type: ignore[func-returns-value]
            self._visit_all(members, set(map(type, members)))
        elif tuple in mro or frozenset in mro:
            self._visit_all(tuple.__iter__(value) if tuple in mro else frozenset.__iter__(value), {object})
        elif deque in mro:
            parts = list(deque.__iter__(value))
            self._undo.append(lambda: (deque.clear(value), deque.extend(value, parts)))  # type: ignore[func-returns-value]
            self._visit_all(parts, set(map(type, parts)))
        elif kind is bytearray or kind is array:
            whole = value[:]
            self._undo.append(lambda: _overwrite(value, whole))
        elif kind is FunctionType:
            self._record_function(value)
        elif kind is MethodType:
            self._visit(value.__self__)
            self._visit(value.__func__)
        elif kind is CellType:
            self._record_cell(value)
        elif type in mro:
            self._record_class(value)
        elif kind is ModuleType:
            return
        if _module_of(kind) == "__main__" or kind is SimpleNamespace:
            self._record_attributes(value, mro)

    def _record_dict(self, value: Any, kind: type) -> None:
        items = list(kind.items(value))  # type: ignore[attr-defined]
        plain = dict(items) if kind is dict else None

        def undo() -> None:
            kind.clear(value)  # type: ignore[attr-defined]
            if plain is not None:
                dict.update(value, plain)
            else:
                for key, item in items:
                    OrderedDict.__setitem__(value, key, item)

        self._undo.append(undo)
        kinds = set(map(type, dict.values(value))) | set(map(type, dict.keys(value)))
        self._visit_all((part for item in items for part in item), kinds)

    def _record_function(self, value: Any) -> None:
        if value.__module__ != "__main__" and not _is_user_code(value.__code__.co_filename):
            return
        defaults, named = value.__defaults__, value.__kwdefaults__

        def undo() -> None:
            value.__defaults__, value.__kwdefaults__ = defaults, named

        self._undo.append(undo)
        for part in (defaults, named, value.__dict__ or None, *(value.__closure__ or ())):
            self._visit(part)

    def _record_cell(self, value: Any) -> None:
        try:
            content = value.cell_contents
        except ValueError:
            content = _EMPTY

        def undo() -> None:
            if content is not _EMPTY:
                value.cell_contents = content
            elif _is_filled(value):
                del value.cell_contents

        self._undo.append(undo)
        self._visit(content)

    def _record_class(self, value: Any) -> None:
        if _module_of(value) != "__main__":
            return
        members = {name: item for name, item in _vars_of(value).items() if name not in _NOT_OURS}

        def undo() -> None:
            present = dict(_vars_of(value))
            for name in present.keys() - members.keys() - set(_NOT_OURS):
                type.__delattr__(value, name)
            for name, item in members.items():
                if present.get(name, _EMPTY) is not item:
                    type.__setattr__(value, name, item)

        self._undo.append(undo)
        for item in members.values():
            self._visit(getattr(item, "__func__", item) if type(item) in (staticmethod, classmethod) else item)

    def _record_attributes(self, value: Any, mro: Tuple[type, ...]) -> None:
        try:
            self._visit(object.__getattribute__(value, "__dict__"))
        except AttributeError:
            pass  # it has only slots
        for kind in mro:
            for member in _vars_of(kind).values():
                if type(member) is MemberDescriptorType and _module_of(kind) == "__main__":
                    self._record_slot(value, member)

    def _record_slot(self, value: Any, member: Any) -> None:
        try:
            content = member.__get__(value)
        except AttributeError:
            content = _EMPTY

        def undo() -> None:
            if content is not _EMPTY:
                member.__set__(value, content)
            elif hasattr(value, member.__name__):
                member.__delete__(value)

        self._undo.append(undo)
        self._visit(content)


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents
        return True
    except ValueError:
        return False


def _overwrite(value: Any, whole: Any) -> None:
    try:
        value[:] = whole
    except BufferError:
        pass  # a memoryview of it exists, so its length cannot change


_LIBRARY = ("/lib/python", "<frozen", "/lib/cella")


def _is_user_code(file: Any) -> bool:
    """Whether a module or function comes from the workspace or a package set, not from Python's own library."""
    return type(file) is str and not file.startswith(_LIBRARY)


def _restore_dict(present: Dict[str, Any], names: Dict[str, Any]) -> None:
    """Restores names one by one, as Python uses the dict meanwhile."""
    for name in present.keys() - names.keys():
        del present[name]
    for name, value in names.items():
        if present.get(name, _umask) is not value:
            present[name] = value


def _umask() -> int:
    mask = os.umask(0o022)
    os.umask(mask)
    return mask


class _ProcessState:
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
            if type(module) is ModuleType and _is_user_code(vars(module).get("__file__")):
                yield module

    def restore(self) -> None:
        # First, as the rest of this function uses builtins.
        _restore_dict(vars(builtins), self._builtins)
        try:
            os.chdir(self._folder)
        except OSError:
            pass  # the folder was removed: files are not restored
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
        self._restore_modules()
        random = sys.modules.get("random")
        if random is not None and self._random is not None:
            random.setstate(self._random)

    def _restore_modules(self) -> None:
        """Removes modules that were imported since: importing them again reads them again."""
        for name, module in list(sys.modules.items()):
            if name not in self._modules and type(getattr(module, "__file__", None)) is str:
                del sys.modules[name]
        for name, module in self._modules.items():
            sys.modules.setdefault(name, module)
