"""Resource limits of one process, lowered permanently before any user code runs."""

from __future__ import annotations

import resource
from typing import Any, Dict

from .linux import LayerError


# Room for libraries and shared memory that a process maps in addition to its data.
_MAPPED_BYTES = 1 << 30


def apply(limits: Dict[str, Any], alone: bool) -> None:
    """`limits`: memoryBytes, processes, cpuSeconds, fileBytes. `alone`: whether there is no control group."""
    if alone:
        # Counts all processes of the user; a control group would count those of the sandbox.
        _lower(resource.RLIMIT_NPROC, limits["processes"])
    # With "used", the control group or pid 1 counts the memory in use.
    if limits.get("memoryCounts") != "used":
        if alone:
            # RLIMIT_DATA does not count shared memory; the limit on address space does.
            _lower(resource.RLIMIT_AS, limits["memoryBytes"] + _MAPPED_BYTES)
        # Allocations fail before the control group would kill, so that code gets a MemoryError.
        _lower(resource.RLIMIT_DATA, limits["memoryBytes"])
    # The soft limit sends SIGXCPU, by which this exit is recognized. The hard limit kills code that ignores it.
    _lower(resource.RLIMIT_CPU, limits["cpuSeconds"], limits["cpuSeconds"] + 2)
    _lower(resource.RLIMIT_FSIZE, limits["fileBytes"])
    # Prevents core dumps: no dump has one byte. If the host pipes dumps to a program, only the value 1 prevents that.
    _lower(resource.RLIMIT_CORE, 1)


def limit_open_files(count: int) -> None:
    """Call it when all descriptors are open, as their numbers may be above the limit."""
    _lower(resource.RLIMIT_NOFILE, count)


def prefer_for_oom_kill() -> None:
    """If memory runs out, Linux kills this process before pid 1, whose end would end all others."""
    try:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("1000")
    except OSError as error:
        raise LayerError("rlimits", "oom_score_adj: %s" % error) from error


def _lower(kind: int, soft: int, hard: int = -1) -> None:
    ceiling = resource.getrlimit(kind)[1]
    wanted = hard if hard >= 0 else soft
    if ceiling != resource.RLIM_INFINITY:
        wanted = min(wanted, ceiling)
    try:
        resource.setrlimit(kind, (min(soft, wanted), wanted))
    except (OSError, ValueError) as error:
        raise LayerError("rlimits", "setrlimit(%d): %s" % (kind, error)) from error
