"""Functions that checkpoints call when they are loaded. Their names are in checkpoints: do not rename or remove any."""

from __future__ import annotations

import _thread
import functools
import sys
from importlib import import_module
from types import CellType, MappingProxyType
from typing import Any, Callable, Dict, Tuple


def module(name: str) -> Any:
    return import_module(name)


def attribute(module_name: str, name: str) -> Any:
    """An object of a module that must stay identical, such as a sentinel."""
    return getattr(import_module(module_name), name)


def stream(name: str) -> Any:
    """sys.stdin, sys.stdout or sys.stderr of the process that loads."""
    return getattr(sys, name)


def lock() -> Any:
    return _thread.allocate_lock()


def rlock() -> Any:
    return _thread.RLock()


def cell() -> CellType:
    """An empty closure cell: its contents, which may refer to its function, are set later."""
    return CellType()


def fill(empty: CellType, contents: Tuple[Any]) -> None:
    empty.cell_contents = contents[0]


def cached(function: Callable[..., Any], parameters: Dict[str, Any]) -> Any:
    """A function wrapped by functools.lru_cache, with an empty cache."""
    return functools.lru_cache(**parameters)(function)


def proxy(mapping: Dict[Any, Any]) -> Any:
    return MappingProxyType(mapping)


def dict_view(mapping: Dict[Any, Any], method: str) -> Any:
    """A view of the keys, values or items of a dict."""
    return getattr(mapping, method)()


def array_view(
    owner: Any, dtype: Any, shape: Tuple[int, ...], strides: Tuple[int, ...], offset: int, writeable: bool
) -> Any:
    """A numpy array in the memory of another array or of a bytearray."""
    import numpy

    if dtype.hasobject:
        flat = owner.ravel(order="K")[offset // dtype.itemsize :]
        view: Any = numpy.lib.stride_tricks.as_strided(flat, shape, strides)
    else:
        is_array = isinstance(owner, numpy.ndarray)
        # numpy.ndarray takes only memory in C order. The transpose of an array in Fortran order has C order.
        plain = owner.T if is_array and not owner.flags.c_contiguous else owner
        view = numpy.ndarray(shape, dtype, plain, offset, strides)
    if not writeable:
        view.flags.writeable = False
    return view
