"""Changes to modules that only the code imports: made when it comes to do so."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any, Callable


class _Finder:
    """On sys.meta_path, until the one module that it is about is looked for."""

    def __init__(self, name: str, change: Callable[[Any], None]) -> None:
        self._name = name
        self._change = change

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self._name:
            return None
        sys.meta_path.remove(self)  # type: ignore[arg-type]
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                load(module)
                self._change(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def change(name: str, how: Callable[[Any], None]) -> None:
    sys.meta_path.insert(0, _Finder(name, how))  # type: ignore[arg-type]
