"""Finds a library by its name where the loader of this machine finds it."""

from __future__ import annotations

import glob
import os
import re
import subprocess
from typing import Dict, Iterable, List, Optional, Tuple

from .elf import Needs, needs_of

_USUAL = ["/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib", "/lib/*-linux-*", "/usr/lib/*-linux-*"]


class Libraries:
    def __init__(self) -> None:
        self._cache = _loader_cache()
        self._kinds: Dict[str, Optional[Tuple[int, int, int]]] = {}
        self._usual = [folder for pattern in _USUAL for folder in sorted(glob.glob(pattern))]

    def find(self, name: str, needs: Needs, origin: str) -> List[str]:
        """All that fit: which one is loaded depends on the links by which whoever needs it was found.

        `origin` is the folder of whoever needs it.
        """
        if "/" in name:
            return [name] if os.path.isabs(name) and os.path.exists(name) else []
        own = [re.sub(r"\$(ORIGIN|\{ORIGIN\})", lambda _: origin, folder) for folder in needs.folders]
        places = [os.path.join(folder, name) for folder in own if os.path.isabs(folder)]
        places += self._cache.get(name, [])
        places += [os.path.join(folder, name) for folder in self._usual]
        return [place for place in dict.fromkeys(places) if self._fits(place, needs)]

    def _fits(self, path: str, needs: Needs) -> bool:
        if path not in self._kinds:
            found = needs_of(path) if os.path.isfile(path) else None
            self._kinds[path] = found and found.kind
        return self._kinds[path] == needs.kind


def _loader_cache() -> Dict[str, List[str]]:
    """What `ldconfig` knows. Where there is none, as with musl, the usual folders are all there is."""
    for program in ("/sbin/ldconfig", "/usr/sbin/ldconfig"):
        try:
            done = subprocess.run([program, "-p"], stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=True)
        except (OSError, subprocess.SubprocessError):
            continue
        return _by_name(os.fsdecode(done.stdout).splitlines())
    return {}


def _by_name(lines: Iterable[str]) -> Dict[str, List[str]]:
    found: Dict[str, List[str]] = {}
    for line in lines:
        match = re.match(r"\s*(\S+) \(.*\) => (/.+)$", line)
        if match:
            found.setdefault(match.group(1), []).append(match.group(2))
    return found
