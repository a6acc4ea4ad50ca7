"""The paths that go into an image. Files that not everybody may read, and folders of people, never do."""

from __future__ import annotations

import os
import stat
from typing import Callable, Dict, Iterable, List

from .elf import needs_of
from .libraries import Libraries

# What belongs to people, to services or to the moment.
_NEVER = ("/boot", "/dev", "/home", "/media", "/mnt", "/proc", "/root", "/run", "/srv", "/sys", "/tmp", "/var")
_MOST_LINKS = 40


class Contents:
    def __init__(self, own: Iterable[str]) -> None:
        """`own`: folders that are taken wherever they lie."""
        self._own = tuple(os.path.realpath(folder) for folder in own) + tuple(own)
        self.libraries = Libraries()
        self.entries: Dict[str, os.stat_result] = {}

    def add(self, path: str) -> bool:
        """A file, a folder without what is in it, or a link with what it points to; False where it is not taken."""
        waiting = [part for part in path.split("/") if part]
        here, links = "/", 0
        while waiting:
            part = waiting.pop(0)
            if part in (".", ".."):
                here = here if part == "." else os.path.dirname(here)
                continue
            here = os.path.join(here, part)
            facts = self._look(here)
            if facts is None:
                return False
            self.entries[here] = facts
            if stat.S_ISLNK(facts.st_mode):
                links += 1
                if links > _MOST_LINKS:
                    return False
                target = os.readlink(here)
                waiting = [piece for piece in target.split("/") if piece] + waiting
                here = "/" if target.startswith("/") else os.path.dirname(here)
        return True

    def add_tree(self, folder: str, skip: Callable[[str], bool] = lambda path: False) -> None:
        if not self.add(folder):
            return
        waiting = [os.path.realpath(folder)]
        seen = set(waiting)
        while waiting:
            with os.scandir(waiting.pop()) as found:
                for entry in sorted(found, key=lambda one: one.name):
                    if skip(entry.path) or not self.add(entry.path) or not entry.is_dir():
                        continue
                    place = os.path.realpath(entry.path)
                    if place not in seen and self._wanted(place):
                        seen.add(place)
                        waiting.append(place)

    def add_program(self, path: str) -> bool:
        """With the interpreter that its first line names."""
        if not self.add(path):
            return False
        with open(path, "rb") as file:
            first = file.readline(256)
        if first.startswith(b"#!"):
            words = os.fsdecode(first[2:]).split()
            if words and os.path.isabs(words[0]) and words[0] != path:
                self.add(words[0])
        return True

    def close(self) -> List[str]:
        """Adds every library that what is here needs, and gives the names of those that are not on this machine."""
        missing: Dict[str, None] = {}
        waiting, seen = list(self.entries), set()
        while waiting:
            path = waiting.pop()
            if path in seen:
                continue
            seen.add(path)
            facts = self.entries[path]
            if not stat.S_ISREG(facts.st_mode) or not (".so" in path or facts.st_mode & 0o111):
                continue
            needs = needs_of(path)
            if needs is None:
                continue
            before = len(self.entries)
            for name in needs.libraries + ([needs.loader] if needs.loader else []):
                places = self.libraries.find(name, needs, os.path.dirname(path))
                if not [place for place in places if self.add(place)]:
                    missing[name] = None
            if len(self.entries) > before:
                waiting.extend(list(self.entries)[before:])
        return sorted(missing)

    def _look(self, path: str):
        if not self._wanted(path):
            return None
        try:
            facts = os.lstat(path)
        except OSError:
            return None
        if stat.S_ISDIR(facts.st_mode) or stat.S_ISLNK(facts.st_mode):
            return facts
        return facts if stat.S_ISREG(facts.st_mode) and facts.st_mode & stat.S_IROTH else None

    def _wanted(self, path: str) -> bool:
        # The folders above one of ours are taken too, without anything else in them.
        if any(path == one or path.startswith(one + "/") or one.startswith(path + "/") for one in self._own):
            return True
        return not any(path == one or path.startswith(one + "/") for one in _NEVER)
