"""`deps`: the packages that this storage's kernels have. The host installs them, outside the sandbox."""

from __future__ import annotations

from typing import Any, Dict, List

from .. import packages
from . import host


class Deps:
    """Packages from the index.

    deps.add("pandas>=2.0")   installs it; it can be imported at once, here and in every later kernel
    deps.remove("pandas")     takes it out
    deps.list()               what is configured
    deps.status()             whether it is installed for this Python
    deps.sync()               installs what is configured and not there
    """

    __slots__ = ()

    def list(self) -> List[str]:
        """What is configured, by name."""
        return host.call("deps.list")

    def status(self) -> Dict[str, Any]:
        """`requirements`, the `python` that they are for, and whether all of them are `installed` for it."""
        return host.call("deps.status")

    def add(self, *requirements: str) -> Dict[str, Any]:
        """Adds packages. The result lists `installed`, and `failed` with the installer's reason for each."""
        return _use(host.call("deps.add", requirements=list(requirements)))

    def remove(self, name: str) -> Dict[str, Any]:
        """Takes a package out. What is imported already stays until the kernel starts again."""
        return _use(host.call("deps.remove", name=name))

    def sync(self) -> Dict[str, Any]:
        """Installs what is configured and not there."""
        return _use(host.call("deps.sync"))

    def __reduce__(self) -> str:
        return "deps"

    def __repr__(self) -> str:
        return "<deps: deps.list() shows the packages, help(deps) tells how to change them>"


def _use(result: Dict[str, Any]) -> Dict[str, Any]:
    packages.use(result.pop("path", None))
    return result


# What a saved name is found by again.
deps = Deps()
