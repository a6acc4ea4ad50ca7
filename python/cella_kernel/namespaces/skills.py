"""`skills`: Python functions that agents save for later. The host stores the sources; they run in the kernel."""

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
    """Skills: Python with `async def run(...)`, saved for later.

    skills.list()                              lists the skills
    skills.search("download a page")           finds skills for a task, also by other words
    skills.create("double", "async def run(n: int):\\n    return n * 2", "Doubles a number")
    skills.double(n=2)                         runs it; `await skills.double(n=2)` in asynchronous code
    skills.invoke("double", n=2)               runs it by its name
    skills.get("double")                       returns it with its source
    """

    __slots__ = ()

    def list(self) -> List[Dict[str, Any]]:
        """Returns all skills: name, description and parameters."""
        return host.list_all("skills.list")

    def search(self, query: str, limit: int = 5) -> "List[Dict[str, Any]]":
        """Returns the skills that fit best. `query` describes the task in plain words."""
        return host.call("skills.search", query=query, limit=limit)

    def get(self, name: str) -> Dict[str, Any]:
        """Returns one skill, with its source."""
        return host.call("skills.get", name=name)

    def create(self, name: str, source: str, description: Optional[str] = None) -> Dict[str, Any]:
        """Saves a skill. `source` must define `async def run(...)`; it is checked, but not run."""
        return host.call("skills.create", name=name, source=source, description=description)

    def delete(self, name: str) -> None:
        """Deletes a skill."""
        host.call("skills.delete", name=name)

    def invoke(self, name: str, /, *positional: Any, **named: Any) -> Any:
        """Runs a skill and returns its result, or an awaitable if the call is awaited."""
        return _start(name, host.is_awaited(2), positional, named)

    def __getattr__(self, name: str) -> "Skill":
        if name.startswith("_"):
            raise AttributeError(name)
        return Skill(name)

    def __getitem__(self, name: str) -> "Skill":
        return Skill(name)

    def __dir__(self) -> "List[str]":
        own = ["list", "search", "get", "create", "delete", "invoke"]
        return own + [skill["name"] for skill in host.list_all("skills.list")]

    def __reduce__(self) -> str:
        return "skills"

    def __repr__(self) -> str:
        return "<skills: skills.list() lists them, help(skills) explains their use>"


class Skill:
    """One skill: call it."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "_name", name)

    def __call__(self, *positional: Any, **named: Any) -> Any:
        """Runs the skill and returns its result, or an awaitable if the call is awaited."""
        return _start(self._name, host.is_awaited(2), positional, named)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a skill has no attributes to set; save it again with skills.create")

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
        return "<skills.%s: help(skills.%s) explains how to call it>" % (self._name, self._name)


def _load(name: str) -> ModuleType:
    """The skill as a module, created again if its source has changed."""
    source: str = host.call("skills.get", name=name)["source"]
    known = _modules.get(name)
    if known is not None and known[0] == source:
        return known[1]
    # A new file name, so that tracebacks show the lines of this version.
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
    """Runs a coroutine to its end from plain code, on a new event loop. A task may be running in this thread."""
    outer = asyncio._get_running_loop()
    # Python 3.14 allows one running task per thread, not one per loop: this suspends the outer task.
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
    """Cancels tasks that the skill has left running."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_asyncgens())


# Checkpoints refer to it by this name.
skills = Skills()
