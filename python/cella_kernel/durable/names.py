"""Which names of a namespace are saved, and which of them are missed."""

from __future__ import annotations

# The last results: saved like other names, and not missed.
LAST_RESULTS = ("_", "__", "___")


def is_saved(name: object) -> bool:
    """Any name but those with two underscores around, which are the module's own."""
    return type(name) is str and not (len(name) > 4 and name.startswith("__") and name.endswith("__"))
