"""Finds where a path leads by links that the system does not follow beneath a folder: absolute ones that stay inside.

Code makes links as it likes: 40 of them can have 80,000 names. So the names that one request looks at are counted.
"""

from __future__ import annotations

import errno
from typing import Callable, List, Optional

# Links in a row, as for the system itself.
_MOST_LINKS = 40
_MOST_NAMES = 4096


class Walk:
    """`link_at`: where the link of that path leads, or None where there is none. `inside`: what the code calls the folder."""

    def __init__(self, link_at: Callable[[str], Optional[str]], inside: str) -> None:
        self._link_at = link_at
        self._inside = inside.rstrip("/")
        self._names_left = _MOST_NAMES

    def freed(self, path: str) -> str:
        """The path without links, as far as it exists: each step begins at the folder itself."""
        # The next name is the last one.
        left = self._names(path)
        done: List[str] = []
        links = 0
        while left:
            name = left.pop()
            if name in ("", "."):
                continue
            if name == "..":
                if not done:
                    raise OSError(errno.EXDEV, "it leads out", path)
                done.pop()
                continue
            target = self._link_at("/".join([*done, name]))
            if target is None:
                done.append(name)
                continue
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, "too many links", path)
            if target.startswith("/"):
                target = self._below(target, path)
                done = []
            left += self._names(target)
        return "/".join(done)

    def _names(self, path: str) -> List[str]:
        names = path.split("/")
        self._names_left -= len(names)
        if self._names_left < 0:
            raise OSError(errno.ELOOP, "too many names in links", path[:200])
        return names[::-1]

    def _below(self, target: str, path: str) -> str:
        whole = target.rstrip("/")
        if whole != self._inside and not whole.startswith(self._inside + "/"):
            raise OSError(errno.EXDEV, "it leads out", path)
        return whole[len(self._inside) + 1 :]
