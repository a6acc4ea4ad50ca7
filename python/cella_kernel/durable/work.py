"""What a worker does: looks at every name, pickles it, puts together what belongs together, and loads it all once.

It goes on from what the plan knows, so that a worker can take over from one that died.
"""

from __future__ import annotations

import gc
import json
import sys
import warnings
from typing import Any, Callable, Dict, Iterable, Mapping, Type

from . import choosing, live, looking, surroundings
from .extracting import Cells
from .names import LAST_RESULTS
from .plan import Plan
from .scene import Scene
from .store import Store
from .surveying import Surveyor
from .verifying import Verifier
from .workers import Event, Report

_MAKE: Dict[str, Callable[[], bytes]] = {
    "cwd": lambda: json.dumps(surroundings.describe_folder()).encode(),
    "random": surroundings.random_states,
}


def work(
    plan: Plan,
    store: Store,
    namespace: Dict[str, Any],
    cells: Mapping[str, str],
    hosts: Iterable[str],
    verifier_of: Type[Verifier],
    tell: Report,
) -> None:
    def report(event: Event) -> None:
        plan.apply(event)
        tell(event)

    warnings.simplefilter("ignore")
    # What a collection would end belongs to whatever the worker is at by then: that would be to blame.
    gc.disable()
    sys.unraisablehook = lambda _: None
    scene = Scene(namespace, hosts)
    texts = Cells(cells)
    _look(plan, namespace, texts, report)
    _make_extras(plan, store, report)
    scene.name_all(scene.hosts, namespace)
    # Lost names too: what holds such a value need not be tried.
    scene.name_definitions([name for name in plan.values if plan.is_definition(name)], plan.values)
    modules = set(plan.imports())
    values = [name for name in plan.values if name not in modules]
    scene.name_all(sorted(values, key=LAST_RESULTS.__contains__), plan.values)
    surveyor = Surveyor(plan, store, scene, texts, report)
    for name in plan.pickled():
        if name not in plan.records:
            surveyor.survey(name)
    verifier = verifier_of(plan, store, scene, report)
    while not _settle(plan, surveyor, verifier, report):
        pass


def _look(plan: Plan, namespace: Dict[str, Any], cells: Cells, report: Report) -> None:
    for name, value in plan.values.items():
        if name in plan.facts or name in plan.lost:
            continue
        plan.progress.turn_to("save", name)
        try:
            report(["looked", name, looking.facts_of(name, value, namespace, cells)])
        except BaseException as error:
            report(["lost", name, live.brief(error)])


def _make_extras(plan: Plan, store: Store, report: Report) -> None:
    for kind, make in _MAKE.items():
        if kind not in plan.extras:
            plan.progress.turn_to("extra", kind)
            try:
                data = make()
                store.write(plan.end, memoryview(data))
                report(["extra", kind, len(data)])
            except BaseException:
                report(["extra", kind, None])


def _settle(plan: Plan, surveyor: Surveyor, verifier: Verifier, report: Report) -> bool:
    """One round over the groups as they are. False where it has changed them: they are made anew, then."""
    groups = plan.groups()
    losses = choosing.losses(plan, groups)
    for event in losses:
        report(event)
    if losses:
        return False
    unwritten = [group for group in groups if plan.form(group) is None]
    for group in unwritten:
        surveyor.write(group.names, group.linked)
    return not unwritten and verifier.verify(groups)
