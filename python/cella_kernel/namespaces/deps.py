"""`deps`: the packages of all kernels of this storage. The host installs them, outside the sandbox."""

from __future__ import annotations

from typing import Any, Dict, List

from .. import packages
from . import host


class Deps:
    """Packages from the index.

    deps.add("pandas>=2.0")   installs a package, which can be imported at once, here and in every later kernel
    deps.remove("pandas")     removes a package
    deps.list()               lists the configured packages
    deps.status()             says whether they are installed for this Python
    deps.sync()               installs configured packages that are missing
    """

    __slots__ = ()

    def list(self) -> List[str]:
        """Returns the configured requirements, sorted by name."""
        return host.call("deps.list")

    def status(self) -> Dict[str, Any]:
        """Returns `requirements`, the `python` of this kernel, and whether all are `installed` for it."""
        return host.call("deps.status")

    def add(self, *requirements: str) -> Dict[str, Any]:
        """Installs packages. The result lists `installed`, and `failed` with the installer's reason for each."""
        return _use(host.call("deps.add", requirements=list(requirements)))

    def remove(self, name: str) -> Dict[str, Any]:
        """Removes a package. Modules that are already imported stay until the kernel restarts."""
        return _use(host.call("deps.remove", name=name))

    def sync(self) -> Dict[str, Any]:
        """Installs configured packages that are missing."""
        return _use(host.call("deps.sync"))

    def __reduce__(self) -> str:
        return "deps"

    def __repr__(self) -> str:
        return "<deps: deps.list() lists the packages, help(deps) explains how to change them>"


def _use(result: Dict[str, Any]) -> Dict[str, Any]:
    packages.use(result.pop("path", None))
    return result


# Checkpoints refer to it by this name.
deps = Deps()
