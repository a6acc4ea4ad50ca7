"""Saves a namespace as segments. Everything that runs code of the namespace happens in workers, where there are any."""

from __future__ import annotations

import functools
import signal
from time import monotonic
from typing import Any, Callable, Container, Dict, List, Mapping, NamedTuple, Optional, Type

from . import choosing, workers
from .emitting import Emission, Emit
from .grouping import Group
from .names import bounded, is_saved
from .plan import Plan
from .store import Store
from .verifying import Verifier
from .work import work

# A worker that dies before it has turned to anything, this often, is not a name's fault.
_MOST_STILLBORN = 3
# The least time that an object gets.
_LEAST_S = 0.1


class Means(NamedTuple):
    """How the work is done: `run` as in workers, and what loads each group to see that it can be loaded."""

    run: Callable[..., Optional[workers.Ending]]
    verifier: Type[Verifier]


# Everything that runs code of the namespace happens in a process of its own.
_FORKS = Means(workers.run, Verifier)


def save(
    namespace: Dict[str, Any],
    cells: Mapping[str, str],
    emit: Emit,
    *,
    limit_bytes: int,
    seconds: float,
    ignore: Container[str] = (),
    means: Means = _FORKS,
) -> Dict[str, Any]:
    """Calls `emit(header, data)` for each segment, in load order; `data` is bytes-like, and gone when it returns.

    `cells` are the texts of the cells by their file names, the oldest first. Names in `ignore` are not saved: what
    refers to their values finds those of the process that loads. Returns `saved` (names), `lost` (name and reason),
    `sources` (name and reason of functions and classes that come back as they were written, not as they are), and
    `python`.
    """
    names, left_out = bounded(name for name in list(namespace) if is_saved(name))
    plan = Plan({name: namespace[name] for name in names if name not in ignore}, limit_bytes)
    hosts = [name for name in names if name in ignore]
    store = Store()
    # The code's own handler would run here, and reap our workers.
    handler = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        job = functools.partial(work, plan, store, namespace, cells, hosts, means.verifier)
        _run_workers(plan, job, seconds, means.run)
        groups = _verified(plan, "the time for saving (%g s) ran out" % seconds)
        return Emission(plan, store, cells, emit).run(groups, left_out)
    finally:
        if handler is not None:
            signal.signal(signal.SIGCHLD, handler)
        store.close()
        plan.progress.close()


def _run_workers(plan: Plan, job: Callable[[workers.Report], None], seconds: float, run: Any) -> None:
    until = monotonic() + seconds
    stillborn = 0

    def patience() -> float:
        # However many objects hang, each leaves time for the others.
        return max((until - monotonic()) / 4, _LEAST_S)

    while monotonic() < until:
        plan.progress.forget()
        steps, memory = plan.progress.steps, 2 * plan.limit_bytes
        ending = run(job, plan.apply, steps=steps, until=until, patience=patience, memory_bytes=memory)
        if ending is None:
            return
        if plan.progress.at() is not None:
            for event in plan.blame(ending):
                plan.apply(event)
        elif not ending.is_late:
            stillborn += 1
            if stillborn == _MOST_STILLBORN:
                raise RuntimeError("nothing could be saved: the worker %s. %s" % (ending.words, plan.failure))


def _verified(plan: Plan, reason: str) -> List[Group]:
    """The groups in load order, when all others are given up."""
    while True:
        groups, imports = plan.groups(), set(plan.imports())
        unverified = [name for group in groups if group.names not in plan.verified for name in group.names]
        unknown = [name for name in plan.values if not (name in plan.lost or name in imports or plan.is_known(name))]
        if not unverified and not unknown:
            return groups
        for name in (*unverified, *unknown):
            plan.apply(["lost", name, reason])
        for event in choosing.losses(plan, plan.groups()):
            plan.apply(event)
