"""Which names of a namespace are saved, and which of them are missed."""

from __future__ import annotations

from typing import Dict, Iterable, List, Tuple

# The last results: saved like other names, and not missed.
LAST_RESULTS = ("_", "__", "___")


def is_saved(name: object) -> bool:
    """Any name but those with two underscores around, which are the module's own."""
    return type(name) is str and not (len(name) > 4 and name.startswith("__") and name.endswith("__"))


# What the host holds of a checkpoint beside its bytes.
MOST_NAMES = 10_000
_LONGEST_NAME = 255
_MOST_BYTES = 1 << 20
_LONGEST_REASON = 300


def bounded(names: Iterable[str]) -> Tuple[List[str], Dict[str, str]]:
    """The names that one checkpoint has room for; and why it has none for others, which it cannot list one by one."""
    fitting: List[str] = []
    lost: Dict[str, str] = {}
    room, left_out = _MOST_BYTES, 0
    for name in names:
        size = len(name.encode("utf-8", "surrogatepass")) if len(name) <= _LONGEST_NAME else room + 1
        if len(fitting) == MOST_NAMES or size > room:
            left_out += 1
        else:
            fitting.append(name)
            room -= size
    if left_out:
        lost["*"] = "%d variables are not saved: a checkpoint has at most %d, with names of %d characters and %d bytes in all" % (
            left_out,
            MOST_NAMES,
            _LONGEST_NAME,
            _MOST_BYTES,
        )
    return fitting, lost


def shown(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"


def brief(reason: str) -> str:
    return reason if len(reason) <= _LONGEST_REASON else reason[: _LONGEST_REASON - 1] + "…"
