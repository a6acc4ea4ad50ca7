"""Resource limits of one process, lowered for good before any user code runs."""

from __future__ import annotations

import resource
from typing import Any, Dict

from .linux import LayerError


# Libraries and shared memory that a process maps beside its own data.
_MAPPED_BYTES = 1 << 30


def apply(limits: Dict[str, Any], alone: bool) -> None:
    """`limits` are memoryBytes, processes, cpuSeconds and fileBytes; `alone` where no control group helps."""
    if alone:
        # Counts every process of the user: a control group counts those of the sandbox.
        _lower(resource.RLIMIT_NPROC, limits["processes"])
    # What is used is counted by the control group, or by pid 1.
    if limits.get("memoryCounts") != "used":
        if alone:
            # Shared memory is not data: only the whole address space bounds it.
            _lower(resource.RLIMIT_AS, limits["memoryBytes"] + _MAPPED_BYTES)
        # Allocation fails a little before the cgroup would kill, so that code sees a MemoryError and lives.
        _lower(resource.RLIMIT_DATA, limits["memoryBytes"])
    # The soft limit sends SIGXCPU, which identifies this exit; the hard one is for code that ignores it.
    _lower(resource.RLIMIT_CPU, limits["cpuSeconds"], limits["cpuSeconds"] + 2)
    _lower(resource.RLIMIT_FSIZE, limits["fileBytes"])
    # No dump is that small; and where dumps are piped to a program of the host's, this one value alone keeps them from it.
    _lower(resource.RLIMIT_CORE, 1)


def limit_open_files(count: int) -> None:
    """For kernels alone, once they have their own descriptors: those have numbers that may be past the limit."""
    _lower(resource.RLIMIT_NOFILE, count)


def be_killed_first() -> None:
    """If memory runs out, this process is killed before pid 1, whose end would end all."""
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
