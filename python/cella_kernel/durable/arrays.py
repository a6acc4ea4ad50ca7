"""numpy arrays that share memory: who owns it, and how a view is saved as a view.

A pickle holds a copy of what a view shows, which would come back unlinked. Where two arrays of a checkpoint lie in the
same memory, the memory is saved once, and both come back as views of it.
"""

from __future__ import annotations

import array
import sys
from typing import Any, Optional, Tuple

from . import rebuild
from .live import Unsaveable, words_for

_BUFFERS = (bytearray, array.array)


def array_type() -> Optional[type]:
    """numpy's array type, where the code has loaded numpy."""
    numpy = sys.modules.get("numpy")
    return getattr(numpy, "ndarray", None)


def has_memory(kind: type) -> bool:
    arrays = array_type()
    return issubclass(kind, _BUFFERS) or (arrays is not None and issubclass(kind, arrays))


def owner_of(value: Any) -> Optional[Any]:
    """The array or buffer that `value` lies in, itself included; None where nobody can change that memory."""
    if isinstance(value, _BUFFERS):
        return value
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


def reduce_view(value: Any, owner: Any) -> Tuple[Any, ...]:
    """For pickle: `value` as a view of `owner`, which is saved with it."""
    arrays = array_type()
    is_array = arrays is not None and isinstance(owner, arrays)
    plain = owner if is_array else sys.modules["numpy"].frombuffer(owner, "u1")
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


def can_be_view(value: Any) -> bool:
    """Subclasses keep more than memory, in ways of their own."""
    return type(value) is array_type()


def owns_memory(value: Any) -> bool:
    return has_memory(type(value)) and owner_of(value) is value
