"""A moment of the names."""
from __future__ import annotations
from typing import Any, Dict

class Names:
    def __init__(self, namespace: Dict[str, Any]) -> None:
        self._namespace = namespace
        self._values = dict(namespace)

    def put_back(self) -> None:
        self._namespace.clear()
        self._namespace.update(self._values)
