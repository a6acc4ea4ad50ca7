"""`tools`, `skills`, `artifacts` and `deps`: the objects that every kernel starts with.

Each sends its calls to the host, which decides and does the work. There are no keys, addresses or switches in the kernel
that code could use to get around the host.
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
    """Adds them to the builtins, so that they survive each reset, restore and rollback, and are no variables of the code."""
    host.connect(connection)
    builtins.tools = tools  # type: ignore[attr-defined]
    builtins.skills = skills  # type: ignore[attr-defined]
    builtins.artifacts = artifacts  # type: ignore[attr-defined]
    builtins.deps = deps  # type: ignore[attr-defined]
