"""What cannot be in a checkpoint whatever its pickle is like: what needs a lost name, and what is over the size cap."""

from __future__ import annotations

import json
from typing import Dict, Iterator, List, Tuple

from . import grouping
from .grouping import Group
from .names import LAST_RESULTS
from .plan import Plan
from .workers import Event


def losses(plan: Plan, groups: List[Group]) -> List[Event]:
    """The next names to give up, each with the reason. Groups are to be made anew after it, and looked at again."""
    for find in (_without_needs(plan), _unlinkable(plan), _over_cap(plan, groups)):
        found = dict(find)
        if found:
            return [["lost", name, reason] for name, reason in found.items()]
    return []


def _without_needs(plan: Plan) -> Iterator[Tuple[str, str]]:
    for name, record in plan.records.items():
        for need in record.needs:
            if need in plan.lost:
                yield name, "it needs %r, which could not be saved: %s" % (need, plan.lost[need])
                break


def _unlinkable(plan: Plan) -> Iterator[Tuple[str, str]]:
    for name, others in grouping.unlinkable(plan.records):
        with_whom = ", ".join(map(repr, others)) or "another array in it"
        yield name, "it shares memory with %s, which only plain numpy arrays can keep" % with_whom


def _over_cap(plan: Plan, groups: List[Group]) -> Iterator[Tuple[str, str]]:
    """The smallest groups come first. Of one that is too large, the largest name goes, so that the others may stay."""
    sizes: Dict[Group, int] = {group: _size(plan, group) for group in groups}
    taken = _fixed_bytes(plan)
    for group in sorted(groups, key=lambda group: sizes[group]):
        taken += sizes[group]
        if taken > plan.limit_bytes:
            own = {name: plan.record(name).size for name in group.names}
            name = max(own, key=lambda name: (own[name], name in LAST_RESULTS))
            figures = megabytes(own[name]), megabytes(plan.limit_bytes)
            yield name, "over the size cap: it takes %s, and %s are all" % figures


def _size(plan: Plan, group: Group) -> int:
    """What is known of it: names that share things take less together than each alone."""
    form = plan.form(group)
    return form.size if form is not None else max(plan.record(name).size for name in group.names)


def _fixed_bytes(plan: Plan) -> int:
    extras = sum(place[1] for place in plan.extras.values() if place is not None)
    return extras + sum(len(json.dumps(facts)) for facts in plan.facts.values() if facts)


def megabytes(count: int) -> str:
    return "%.1f MB" % (count / (1 << 20))
