"""`skills`: Python that agents keep for later. The host keeps the sources; they run here, in the kernel."""

from __future__ import annotations

import asyncio
import builtins
import inspect
from types import ModuleType
from typing import Any, Dict, List, Optional, Tuple

from .. import cell_sources
from . import host

_modules: Dict[str, Tuple[str, ModuleType]] = {}


class Skills:
    """Skills: Python with `async def run(...)`, kept for later.

    skills.list()                              what there is
    skills.search("download a page")           what fits a task, in other words too
    skills.create("double", "async def run(n: int):\\n    return n * 2", "Doubles a number")
    skills.double(n=2)                         runs it; `await skills.double(n=2)` in asynchronous code
    skills.invoke("double", n=2)               the same by name
    skills.get("double")                       its source
    """

    __slots__ = ()

    def list(self) -> List[Dict[str, Any]]:
        """Every skill: name, description and parameters."""
        return host.every("skills.list")

    def search(self, query: str, limit: int = 5) -> "List[Dict[str, Any]]":
        """The skills that fit a task best, described in plain words."""
        return host.call("skills.search", query=query, limit=limit)

    def get(self, name: str) -> Dict[str, Any]:
        """One skill, with its source."""
        return host.call("skills.get", name=name)

    def create(self, name: str, source: str, description: Optional[str] = None) -> Dict[str, Any]:
        """Keeps a skill. `source` must define `async def run(...)`; it is checked, not run."""
        return host.call("skills.create", name=name, source=source, description=description)

    def delete(self, name: str) -> None:
        """Forgets a skill."""
        host.call("skills.delete", name=name)

    def invoke(self, name: str, /, *positional: Any, **named: Any) -> Any:
        """Runs a skill and gives its result, or something to await where the call is awaited."""
        return _start(name, host.is_awaited(2), positional, named)

    def __getattr__(self, name: str) -> "Skill":
        if name.startswith("_"):
            raise AttributeError(name)
        return Skill(name)

    def __getitem__(self, name: str) -> "Skill":
        return Skill(name)

    def __dir__(self) -> "List[str]":
        own = ["list", "search", "get", "create", "delete", "invoke"]
        return own + [skill["name"] for skill in host.every("skills.list")]

    def __reduce__(self) -> str:
        return "skills"

    def __repr__(self) -> str:
        return "<skills: skills.list() shows them, help(skills) tells how to use them>"


class Skill:
    """One skill: call it."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "_name", name)

    def __call__(self, *positional: Any, **named: Any) -> Any:
        """Runs the skill and gives its result, or something to await where the call is awaited."""
        return _start(self._name, host.is_awaited(2), positional, named)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a skill cannot be changed from here; create it anew")

    @property
    def source(self) -> str:
        return str(host.call("skills.get", name=self._name)["source"])

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(_load(self._name).run)

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        facts = host.call("skills.get", name=self._name)
        lines = [facts.get("description") or "", ""]
        for parameter in facts["parameters"]:
            annotation = ": %s" % parameter["annotation"] if parameter.get("annotation") else ""
            default = "" if parameter.get("required", True) else " = %s" % parameter.get("default")
            lines.append("    %s%s%s" % (parameter["name"], annotation, default))
        return "\n".join(lines).strip()

    def __reduce__(self) -> Any:
        return Skill, (self._name,)

    def __repr__(self) -> str:
        return "<skills.%s: help(skills.%s) tells how to call it>" % (self._name, self._name)


def _load(name: str) -> ModuleType:
    """The skill as a module, made again when its source has changed."""
    source: str = host.call("skills.get", name=name)["source"]
    known = _modules.get(name)
    if known is not None and known[0] == source:
        return known[1]
    # Its own name, so that a traceback shows the lines of this source and of no older one.
    file = cell_sources.remember_skill(name, source)
    module = ModuleType("skills.%s" % name)
    module.__dict__["__builtins__"] = builtins
    module.__file__ = file
    exec(compile(source, file, "exec", dont_inherit=True), module.__dict__)
    _modules[name] = (source, module)
    return module


def _start(name: str, awaited: bool, positional: Tuple[Any, ...], named: Dict[str, Any]) -> Any:
    coroutine = _load(name).run(*positional, **named)
    if awaited or not inspect.iscoroutine(coroutine):
        return coroutine
    return _finish(coroutine)


def _finish(coroutine: Any) -> Any:
    """Runs a coroutine to its end from plain code, also where that is called by a task: on a loop of its own."""
    outer = asyncio._get_running_loop()
    # Where a thread has one running task, not one a loop (Python 3.14), it steps aside meanwhile.
    task: Any = asyncio.current_task(outer) if outer is not None else None
    if task is not None:
        asyncio.tasks._leave_task(outer, task)  # type: ignore[attr-defined]
    asyncio._set_running_loop(None)
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(coroutine)
    finally:
        try:
            _cancel_tasks(loop)
        finally:
            loop.close()
            asyncio._set_running_loop(outer)
            if task is not None:
                asyncio.tasks._enter_task(outer, task)  # type: ignore[attr-defined]


def _cancel_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """What the skill has left running ends with it."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_asyncgens())


# What a saved name is found by again.
skills = Skills()
