"""Saves a namespace as segments. If there are worker processes, code of the namespace runs only in them.

A worker classifies each variable, pickles it, groups variables that share objects, and tries to load each group. It
continues from what the plan knows, so that a new worker can replace one that died.
"""

from __future__ import annotations

import functools
import gc
import json
import signal
import sys
import warnings
from time import monotonic
from typing import Any, Callable, Container, Dict, Iterable, List, Mapping, NamedTuple, Optional, Type

from . import definitions, process_state, unsaveable, worker
from .definitions import CellTexts
from .groups import Group
from .plan import Plan, next_losses
from .segments import Emit, SegmentWriter, Store
from .trial import TrialLoader, TrialPickler
from .variables import LAST_RESULTS, NamedObjects, bounded_names, is_definition, is_known_module, is_saved
from .worker import Event, Report

# If workers die this often before they have begun a variable, no variable is the cause.
_MOST_FAILED_STARTS = 3
# The shortest timeout of an object.
_LEAST_S = 0.1


class SaveMethod(NamedTuple):
    """Where the code of the namespace runs: `run` as `worker.run`, and the class that tries to load each group."""

    run: Callable[[Callable[[Report], None], Report, worker.Limits], Optional[worker.WorkerEnd]]
    loader: Type[TrialLoader]


_IN_WORKERS = SaveMethod(worker.run, TrialLoader)


def save(
    namespace: Dict[str, Any],
    cells: Mapping[str, str],
    emit: Emit,
    *,
    limit_bytes: int,
    seconds: float,
    ignore: Container[str] = (),
    method: SaveMethod = _IN_WORKERS,
) -> Dict[str, Any]:
    """Calls `emit(header, data)` for each segment, in load order. `data` is bytes-like and valid only during the call.

    `cells` are the texts of the cells by their file names, the oldest first. Variables in `ignore` are not saved:
    references to their values become references to those of the process that loads. Returns `saved` (names), `lost`
    (name and reason), `sources` (name and reason of functions and classes that are saved only as source), and `python`.
    """
    names, left_out = bounded_names(name for name in list(namespace) if is_saved(name))
    plan = Plan({name: namespace[name] for name in names if name not in ignore}, limit_bytes)
    hosts = [name for name in names if name in ignore]
    store = Store()
    # A handler of the code would run here and could reap the workers.
    handler = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        job = functools.partial(_work, plan, store, namespace, cells, hosts, method.loader)
        _run_workers(plan, job, seconds, method)
        groups = _verified(plan, "the time for saving (%g s) ran out" % seconds)
        return SegmentWriter(plan, store, cells, emit).run(groups, left_out)
    finally:
        if handler is not None:
            signal.signal(signal.SIGCHLD, handler)
        store.close()
        plan.progress.close()


def _run_workers(plan: Plan, job: Callable[[Report], None], seconds: float, method: SaveMethod) -> None:
    until = monotonic() + seconds
    failed_starts = 0

    def timeout_s() -> float:
        # A quarter of what is left, so that objects that hang leave time for the others.
        return max((until - monotonic()) / 4, _LEAST_S)

    limits = worker.Limits(plan.progress.steps, timeout_s, until, memory_bytes=2 * plan.limit_bytes)
    while monotonic() < until:
        plan.progress.forget()
        ending = method.run(job, plan.apply, limits)
        if ending is None:
            return
        if plan.progress.at() is not None:
            for event in plan.attribute_failure(ending):
                plan.apply(event)
        elif not ending.is_late:
            failed_starts += 1
            if failed_starts == _MOST_FAILED_STARTS:
                raise RuntimeError("nothing could be saved: the worker %s. %s" % (ending.words, plan.failure))


def _verified(plan: Plan, reason: str) -> List[Group]:
    """The groups in load order, without variables that were not verified in time: they are lost."""
    while True:
        groups, imports = plan.groups(), set(plan.imports())
        unverified = [name for group in groups if group.names not in plan.verified for name in group.names]
        unknown = [name for name in plan.values if not (name in plan.lost or name in imports or plan.is_known(name))]
        if not unverified and not unknown:
            return groups
        for name in (*unverified, *unknown):
            plan.apply(["lost", name, reason])
        for event in next_losses(plan, plan.groups()):
            plan.apply(event)


_MAKE: Dict[str, Callable[[], bytes]] = {
    "cwd": lambda: json.dumps(process_state.describe_folder()).encode(),
    "random": process_state.random_states,
}


def _work(
    plan: Plan,
    store: Store,
    namespace: Dict[str, Any],
    cells: Mapping[str, str],
    hosts: Iterable[str],
    loader_type: Type[TrialLoader],
    report_to_parent: Report,
) -> None:
    def report(event: Event) -> None:
        plan.apply(event)
        report_to_parent(event)

    warnings.simplefilter("ignore")
    # A garbage collection could run code of one variable during the work on another, which would then be lost.
    gc.disable()
    sys.unraisablehook = lambda _: None
    named_objects = NamedObjects(namespace, hosts)
    texts = CellTexts(cells)
    _classify(plan, namespace, texts, report)
    _make_extras(plan, store, report)
    named_objects.name_all(named_objects.hosts, namespace)
    # Lost ones too: a variable that refers to one is lost without a trial.
    named_objects.name_definitions([name for name in plan.values if plan.is_definition(name)], plan.values)
    modules = set(plan.imports())
    values = [name for name in plan.values if name not in modules]
    named_objects.name_all(sorted(values, key=LAST_RESULTS.__contains__), plan.values)
    pickler = TrialPickler(plan, store, named_objects, texts, report)
    for name in plan.pickled():
        if name not in plan.records:
            pickler.try_variable(name)
    loader = loader_type(plan, store, named_objects, report)
    while not _settle(plan, pickler, loader, report):
        pass


def _classify(plan: Plan, namespace: Dict[str, Any], cells: CellTexts, report: Report) -> None:
    for name, value in plan.values.items():
        if name in plan.facts or name in plan.lost:
            continue
        plan.progress.begin("save", name)
        try:
            report(["looked", name, _facts_of(name, value, namespace, cells)])
        except BaseException as error:
            report(["lost", name, unsaveable.describe_error(error)])


def _make_extras(plan: Plan, store: Store, report: Report) -> None:
    for kind, make in _MAKE.items():
        if kind not in plan.extras:
            plan.progress.begin("extra", kind)
            try:
                data = make()
                store.write(plan.end, memoryview(data))
                report(["extra", kind, len(data)])
            except BaseException:
                report(["extra", kind, None])


def _settle(plan: Plan, pickler: TrialPickler, loader: TrialLoader, report: Report) -> bool:
    """One round over the groups. Returns False if a variable was lost or a group was written: then groups are made again."""
    groups = plan.groups()
    found = next_losses(plan, groups)
    for event in found:
        report(event)
    if found:
        return False
    unwritten = [group for group in groups if plan.form(group) is None]
    for group in unwritten:
        pickler.write(group.names, group.linked)
    return not unwritten and loader.verify(groups)


# Types that are neither modules nor definitions.
_VALUES = frozenset((int, float, str, bytes, bool, type(None), list, dict, tuple, set, complex))


def _facts_of(name: str, value: Any, namespace: Dict[str, Any], cells: CellTexts) -> Dict[str, Any]:
    """`module` for a module; `place` and `source` for a definition; nothing for a value."""
    if type(value) in _VALUES:
        return {}
    if is_known_module(value) and vars(value) is not namespace:
        return {"module": process_state.describe_module(value)}
    if not is_definition(value):
        return {}
    source = definitions.extract(name, value, cells)
    if source is not None and ";" in source["text"]:
        # With several statements on one line, the text may contain a part of the next statement.
        try:
            definitions.compile_source(source)
        except (SyntaxError, ValueError, IndexError):
            source = None
    if source is not None:
        return {"place": cells.place(source["file"], source["line"]), "source": source}
    code = definitions.written_code(value)
    return {"place": cells.place(code.co_filename if code else "", code.co_firstlineno if code else 0), "source": None}
