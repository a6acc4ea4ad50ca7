"""Which objects two names may share, so that these names must come back together."""

from __future__ import annotations

import sys
import types
from typing import Any, List

_PLAIN = frozenset((
    type(None), bool, int, float, complex, str, bytes, range, slice, type(Ellipsis), type(NotImplemented),
    types.CodeType, types.MappingProxyType,
))
# By name, so that nothing is imported to look for it. Loggers are their module's to keep, by name.
_PLAIN_NAMES = frozenset((
    "datetime.date", "datetime.time", "datetime.timedelta", "datetime.tzinfo", "decimal.Decimal",
    "fractions.Fraction", "uuid.UUID", "pathlib.PurePath", "pathlib._local.PurePath", "enum.Enum", "re.Pattern",
    "logging.Logger", "numpy.dtype", "numpy.generic", "numpy.ufunc", "pandas._libs.missing.NAType",
    "pandas.core.dtypes.base.ExtensionDtype", "dataclasses._MISSING_TYPE", "dataclasses._FIELD_BASE",
))


def is_plain(kind: type) -> bool:
    """Nothing of this type changes in place, or its pickle is only a name: names need not come back together for it."""
    if kind in _PLAIN or kind.__module__ in ("typing", "types"):
        return True
    return any("%s.%s" % (parent.__module__, parent.__qualname__) in _PLAIN_NAMES for parent in kind.__mro__)


def held_twice(values: List[Any]) -> List[Any]:
    """Those that more than one object holds: the first object that two names have in common is always one of them.

    It may give more than these, such as what is in the list several times; it leaves none out.
    """
    holder = [[0]]
    # Where threads run without one lock for all, the counts are not exact.
    alone = _counts(list(holder))[0] if getattr(sys, "_is_gil_enabled", lambda: True)() else 0
    return [value for value, count in zip(values, _counts(values)) if count > alone]


def _counts(values: List[Any]) -> List[int]:
    return [sys.getrefcount(value) for value in values]
