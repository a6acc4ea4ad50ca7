"""What a worker may not do: be heard, or take more memory than is meant for it. It may recurse deeper than usual."""

from __future__ import annotations

import os
import signal
import sys

try:
    import resource
except ImportError:
    pass  # in WebAssembly, which has no workers to confine either

# Enough for a linked list of some thousand objects, and a stack that holds it.
_DEEPEST = 10_000
_STACK_BYTES = 64 << 20


def be_quiet() -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nothing, fd)
    for number in (signal.SIGINT, signal.SIGXFSZ, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)


def be_modest(memory_bytes: int) -> None:
    """No more memory than is in use now, as much again for what is loaded, and `memory_bytes`; a deep stack.

    Where memory runs out all the same, this process goes before the kernel.
    """
    sys.setrecursionlimit(max(_DEEPEST, sys.getrecursionlimit()))
    _set_limit(resource.RLIMIT_STACK, _STACK_BYTES, at_least=True)
    try:
        with open("/proc/self/oom_score_adj", "w") as score:
            score.write("1000")
    except OSError:
        pass  # no /proc, or not ours to write
    try:
        with open("/proc/self/statm", "rb") as file:
            mapped, resident = (int(pages) * resource.getpagesize() for pages in file.read().split()[:2])
    except (OSError, ValueError):
        return  # no /proc: the limits of the sandbox hold alone
    _set_limit(resource.RLIMIT_AS, mapped + resident + memory_bytes, at_least=False)


def _set_limit(kind: int, value: int, at_least: bool) -> None:
    soft, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    if soft == resource.RLIM_INFINITY:
        wanted = soft if at_least else value
    else:
        wanted = max(soft, value) if at_least else min(soft, value)
    try:
        resource.setrlimit(kind, (wanted, hard))
    except (OSError, ValueError):
        pass  # refused: what is in force stays
