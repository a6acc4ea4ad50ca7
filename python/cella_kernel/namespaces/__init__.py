"""`tools`, `skills`, `artifacts` and `deps`: what every kernel starts with.

Each is a thin proxy: a call becomes a frame to the host, which decides and does the work. There is nothing in here to
get around: no key, no address, no switch.
"""

from __future__ import annotations

import builtins

from ..host_connection import HostConnection
from . import host
from .artifacts import artifacts
from .deps import deps
from .skills import skills
from .tools import tools


def install(connection: HostConnection) -> None:
    """As builtins, so that they are there after every reset, restore and rollback, and are no names of the code's own."""
    host.connect(connection)
    builtins.tools = tools  # type: ignore[attr-defined]
    builtins.skills = skills  # type: ignore[attr-defined]
    builtins.artifacts = artifacts  # type: ignore[attr-defined]
    builtins.deps = deps  # type: ignore[attr-defined]
