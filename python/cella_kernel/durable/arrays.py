"""numpy arrays that share memory: who owns it, where in it each lies, and how a view is saved as a view.

A pickle holds a copy of what a view shows, which would come back unlinked. Where two arrays of a checkpoint overlap in
the same memory, the memory is saved once, and both come back as views of it.
"""

from __future__ import annotations

import array
import sys
from typing import Any, Dict, Iterable, List, Optional, Tuple

from . import rebuild
from .bonds import Stretch
from .live import Unsaveable, words_for

_BUFFERS = (bytearray, array.array)


def array_type() -> Optional[type]:
    """numpy's array type, where the code has loaded numpy."""
    numpy = sys.modules.get("numpy")
    return getattr(numpy, "ndarray", None)


def has_memory(kind: type) -> bool:
    arrays = array_type()
    return arrays is not None and issubclass(kind, (arrays, *_BUFFERS))


def owner_of(value: Any) -> Optional[Any]:
    """The array or buffer that `value` lies in, itself included; None where nobody can change that memory."""
    if isinstance(value, _BUFFERS):
        return value if len(value) else None
    arrays = array_type()
    if arrays is None or not value.size:
        return None
    owner = value
    while True:
        base = owner.base
        if type(base) is memoryview:
            base = base.obj
        if isinstance(base, bytes):
            return None
        if isinstance(base, _BUFFERS):
            return base
        if not isinstance(base, arrays):
            words = words_for(type(base))
            if words is not None:
                raise Unsaveable(words, base)
            # Its own memory, or that of a library whose objects numpy alone can read: copied as it is.
            return owner
        owner = base


def stretches(pairs: Iterable[Tuple[Any, Any]]) -> List[Stretch]:
    """From the owners of memory and the arrays of one name in it: one stretch for each owner."""
    found: Dict[int, Dict[int, Tuple[int, int, bool, bool]]] = {}
    for owner, value in pairs:
        low, high = _bounds(value)
        found.setdefault(id(owner), {})[id(value)] = (low, high, value is not owner, type(value) is array_type())
    return [_stretch(owner, sorted(parts.values())) for owner, parts in found.items()]


def _stretch(owner: int, parts: List[Tuple[int, int, bool, bool]]) -> Stretch:
    """`parts` are in the order of their first bytes."""
    high, overlaps = 0, False
    for first, end, _, _ in parts:
        overlaps = overlaps or first < high
        high = max(high, end)
    views = [is_plain for _, _, is_view, is_plain in parts if is_view]
    return Stretch(owner, parts[0][0], high, bool(views), all(views), overlaps)


def _bounds(value: Any) -> Tuple[int, int]:
    """The addresses of its first byte, and of the one after its last."""
    if isinstance(value, _BUFFERS):
        value = sys.modules["numpy"].frombuffer(value, "u1")
    low = high = _address(value)
    for count, step in zip(value.shape, value.strides):
        if step < 0:
            low += (count - 1) * step
        else:
            high += (count - 1) * step
    return low, high + value.itemsize


def reduce_view(value: Any, owner: Any) -> Tuple[Any, ...]:
    """For pickle: `value` as a view of `owner`, which is saved with it."""
    plain = sys.modules["numpy"].frombuffer(owner, "u1") if isinstance(owner, _BUFFERS) else owner
    if not (plain.flags.c_contiguous or plain.flags.f_contiguous):
        raise Unsaveable("a view of memory that has gaps", value)
    if value.dtype.hasobject and value.dtype != plain.dtype:
        raise Unsaveable("a view of objects under another type", value)
    offset = _address(value) - _address(plain)
    return (
        rebuild.array_view,
        (owner, value.dtype, value.shape, value.strides, offset, bool(value.flags.writeable)),
    )


def _address(value: Any) -> int:
    address: int = value.__array_interface__["data"][0]
    return address
