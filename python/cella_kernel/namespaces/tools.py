"""`tools`: programs, MCP servers and HTTP endpoints that the host calls for the code."""

from __future__ import annotations

import inspect
from typing import Any, Dict, List, Optional

from . import host

_TYPES = {"string": str, "integer": int, "number": float, "boolean": bool, "array": list, "object": dict}


class Tools:
    """Tools that this session may use.

    tools.list()                     lists the tools
    tools.search("text in files")    finds tools for a task
    tools.grep(pattern="x")          calls the tool `grep`
    tools.curl.get(url="...")        calls the recipe `get` of the tool `curl`
    await tools.grep.call_async(...) calls it while other tasks run; `await tools.grep(...)` works too
    help(tools.grep)                 shows its parameters
    """

    __slots__ = ()

    def list(self) -> List[Dict[str, Any]]:
        """Returns all tools: name, description, tags, parameters and recipes."""
        return host.call("tools.list")

    def search(self, query: str, limit: int = 10) -> "List[Dict[str, Any]]":
        """Returns the tools that fit best. `query` describes the task in plain words."""
        return host.call("tools.search", query=query, limit=limit)

    def __getattr__(self, name: str) -> "Tool":
        if name.startswith("_"):
            raise AttributeError(name)
        return Tool(name, None)

    def __getitem__(self, name: str) -> "Tool":
        return Tool(name, None)

    def __dir__(self) -> "List[str]":
        return ["list", "search", *(tool["name"] for tool in host.call("tools.list"))]

    def __reduce__(self) -> str:
        return "tools"

    def __repr__(self) -> str:
        return "<tools: tools.list() lists them, help(tools) explains how to call them>"


class Tool:
    """One tool, or one of its recipes. Call it directly, or with `call_sync` or `call_async`."""

    __slots__ = ("_name", "_recipe")

    def __init__(self, name: str, recipe: Optional[str]) -> None:
        object.__setattr__(self, "_name", name)
        object.__setattr__(self, "_recipe", recipe)

    def __call__(self, *positional: Any, **named: Any) -> Any:
        """Calls the tool and returns its result, or an awaitable if the call is awaited."""
        if host.is_awaited(2):
            return self.call_async(*positional, **named)
        return self.call_sync(*positional, **named)

    def call_sync(self, *positional: Any, **named: Any) -> Any:
        """Calls the tool and waits for its result."""
        return host.call("tools.call", name=self._name, recipe=self._recipe, positional=list(positional), named=named)

    async def call_async(self, *positional: Any, **named: Any) -> Any:
        """Calls the tool; other tasks run meanwhile."""
        return await host.call_async(
            "tools.call", name=self._name, recipe=self._recipe, positional=list(positional), named=named
        )

    def __getattr__(self, name: str) -> "Tool":
        if name.startswith("_") or self._recipe is not None:
            raise AttributeError(name)
        return Tool(self._name, name)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a tool has no attributes to set")

    def __dir__(self) -> "List[str]":
        recipes = [] if self._recipe is not None else [recipe["name"] for recipe in self._facts()["recipes"]]
        return ["call_sync", "call_async", *recipes]

    def _facts(self) -> Dict[str, Any]:
        facts: Dict[str, Any] = host.call("tools.describe", name=self._name)
        if self._recipe is None:
            return facts
        for recipe in facts["recipes"]:
            if recipe["name"] == self._recipe:
                return recipe  # type: ignore[no-any-return]
        raise AttributeError("the tool %s has no recipe %s" % (self._name, self._recipe))

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.Signature([_parameter(facts) for facts in self._facts()["parameters"]])

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        facts = self._facts()
        lines = [facts.get("description") or "", ""]
        lines += ["    %s" % _line(parameter) for parameter in facts["parameters"]]
        for recipe in facts.get("recipes") or ():
            lines.append("%s.%s(...)  %s" % (self._path(), recipe["name"], recipe.get("description") or ""))
        return "\n".join(lines).strip()

    def _path(self) -> str:
        return "tools.%s" % ".".join(filter(None, (self._name, self._recipe)))

    def __reduce__(self) -> Any:
        return Tool, (self._name, self._recipe)

    def __repr__(self) -> str:
        return "<%s: help(%s) explains how to call it>" % (self._path(), self._path())


def _parameter(facts: Dict[str, Any]) -> inspect.Parameter:
    default = facts.get("default")
    empty = inspect.Parameter.empty
    return inspect.Parameter(
        facts["name"],
        # Keyword-only, so that required parameters may follow optional ones.
        inspect.Parameter.KEYWORD_ONLY,
        default=empty if facts.get("required") else default,
        annotation=_TYPES.get(facts.get("type") or "", empty),
    )


def _line(facts: Dict[str, Any]) -> str:
    required = "" if facts.get("required") else ", optional"
    choices = facts.get("enum")
    among = ", one of %s" % ", ".join(map(str, choices)) if choices else ""
    return "%s (%s%s%s)  %s" % (facts["name"], facts.get("type"), required, among, facts.get("description") or "")


# Checkpoints refer to it by this name.
tools = Tools()
