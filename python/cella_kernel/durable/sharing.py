"""What variables share: objects that several variables refer to, and memory that several arrays use.

A worker identifies objects by their ids, of which there may be millions. It reports only which variables share something,
and writes the ids to the store, for the next worker if it dies. A pickle contains a copy of the data of a numpy view. If
two arrays of a checkpoint overlap, their memory is saved once, and both are restored as views of it.
"""

from __future__ import annotations

import sys
import types
from array import array
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Set, Tuple

from . import rebuild
from .unsaveable import Unsaveable, words_for


class MemoryRange(NamedTuple):
    """The part of one owner's memory that the arrays of one variable use."""

    owner: int
    # Addresses of the first byte, and of the byte after the last.
    low: int
    high: int
    # Whether an array is not the owner itself; whether all such arrays can be saved as views.
    has_views: int
    can_be_views: int
    # Whether two arrays of the variable overlap.
    overlaps: int


class MemorySharer(NamedTuple):
    """A variable whose arrays overlap with each other or with those of another variable, in the memory of this owner."""

    owner: int
    name: str
    has_views: bool
    can_be_views: bool
    overlaps: bool


class SharedObjects:
    def __init__(self) -> None:
        self._holders: Dict[int, str] = {}
        self._ranges: Dict[int, List[Tuple[str, MemoryRange]]] = {}

    def add(self, name: str, identities: "array[int]", ranges: List[MemoryRange]) -> Tuple[List[str], List[MemorySharer]]:
        """Adds a variable. Returns the earlier variables that share an object with it, and those that share memory."""
        holders = {self._holders.setdefault(identity, name) for identity in identities} - {name}
        sharers: Set[MemorySharer] = set()
        for memory in ranges:
            known = self._ranges.setdefault(memory.owner, [])
            met = [(other, part) for other, part in known if part.low < memory.high and memory.low < part.high]
            if met or memory.overlaps:
                sharers.update(_sharer(*item) for item in (*met, (name, memory)))
            known.append((name, memory))
        return sorted(holders), sorted(sharers)


def _sharer(name: str, memory: MemoryRange) -> MemorySharer:
    return MemorySharer(memory.owner, name, bool(memory.has_views), bool(memory.can_be_views), bool(memory.overlaps))


def pack_shared(identities: "array[int]", ranges: List[MemoryRange]) -> bytes:
    numbers = array("Q", [len(identities)])
    numbers.extend(identities)
    for memory in ranges:
        numbers.extend(memory)
    return numbers.tobytes()


def unpack_shared(data: Any) -> Tuple["array[int]", List[MemoryRange]]:
    numbers = array("Q")
    numbers.frombytes(data)
    end = 1 + numbers[0]
    width = len(MemoryRange._fields)
    parts = [numbers[start : start + width] for start in range(end, len(numbers), width)]
    return numbers[1:end], [MemoryRange(*part) for part in parts]


_BUFFERS = (bytearray, array)


def array_type() -> Optional[type]:
    """numpy's array type, if the code has imported numpy."""
    numpy = sys.modules.get("numpy")
    return getattr(numpy, "ndarray", None)


def has_memory(kind: type) -> bool:
    arrays = array_type()
    return arrays is not None and issubclass(kind, (arrays, *_BUFFERS))


def owner_of(value: Any) -> Optional[Any]:
    """The array or buffer whose memory `value` uses, possibly itself; None if that memory cannot change."""
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
            # The memory belongs to the array, or to an object of a library: it is saved as a copy.
            return owner
        owner = base


def memory_ranges(pairs: Iterable[Tuple[Any, Any]]) -> List[MemoryRange]:
    """From pairs of an owner and an array of one variable: one range for each owner."""
    found: Dict[int, Dict[int, Tuple[int, int, bool, bool]]] = {}
    for owner, value in pairs:
        low, high = _bounds(value)
        found.setdefault(id(owner), {})[id(value)] = (low, high, value is not owner, type(value) is array_type())
    return [_range(owner, sorted(parts.values())) for owner, parts in found.items()]


def _range(owner: int, parts: List[Tuple[int, int, bool, bool]]) -> MemoryRange:
    """`parts` are sorted by their first bytes."""
    high, overlaps = 0, False
    for first, end, _, _ in parts:
        overlaps = overlaps or first < high
        high = max(high, end)
    views = [is_plain for _, _, is_view, is_plain in parts if is_view]
    return MemoryRange(owner, parts[0][0], high, bool(views), all(views), overlaps)


def _bounds(value: Any) -> Tuple[int, int]:
    """The addresses of its first byte, and of the byte after its last."""
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


_PLAIN = frozenset((
    type(None), bool, int, float, complex, str, bytes, range, slice, type(Ellipsis), type(NotImplemented),
    types.CodeType, types.MappingProxyType,
))
# Names, so that nothing needs to be imported. Loggers are saved by name.
_PLAIN_NAMES = frozenset((
    "datetime.date", "datetime.time", "datetime.timedelta", "datetime.tzinfo", "decimal.Decimal",
    "fractions.Fraction", "uuid.UUID", "pathlib.PurePath", "pathlib._local.PurePath", "enum.Enum", "re.Pattern",
    "logging.Logger", "numpy.dtype", "numpy.generic", "numpy.ufunc", "pandas._libs.missing.NAType",
    "pandas.core.dtypes.base.ExtensionDtype", "dataclasses._MISSING_TYPE", "dataclasses._FIELD_BASE",
))


def is_plain(kind: type) -> bool:
    """Whether objects of this type never change or are pickled by name, so that variables can share them separately."""
    if kind in _PLAIN or kind.__module__ in ("typing", "types"):
        return True
    return any("%s.%s" % (parent.__module__, parent.__qualname__) in _PLAIN_NAMES for parent in kind.__mro__)


def held_twice(values: List[Any]) -> List[Any]:
    """The values with more than one reference. The first object that two variables have in common is always among them.

    May return too many, such as values that are in the list several times, but never too few.
    """
    holder = [[0]]
    # Without the GIL, reference counts are not exact.
    alone = _counts(list(holder))[0] if getattr(sys, "_is_gil_enabled", lambda: True)() else 0
    return [value for value, count in zip(values, _counts(values)) if count > alone]


def _counts(values: List[Any]) -> List[int]:
    return [sys.getrefcount(value) for value in values]
