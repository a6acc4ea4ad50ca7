"""Removes folders that code has filled, however deep and however many, in steps of bounded length."""

from __future__ import annotations

import errno
import os
import uuid
from typing import Iterator

WAY = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK | os.O_CLOEXEC
_AT_ONCE = 2000


def unlink(parent: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=parent)
    except FileNotFoundError:
        pass  # the code was faster


class _Enough(Exception):
    """As much was removed as one request may."""


class _Removal:
    """Empties a folder. What lies deeper is brought up into it: few folders are open at a time, however deep they lie."""

    def __init__(self, top: int) -> None:
        self._top = top
        self._left = _AT_ONCE

    def empty(self) -> None:
        while self._empty_once():
            pass

    def _empty_once(self) -> int:
        raised = 0
        for entry in _entries(self._top):
            self._count()
            if not _gone(self._top, entry):
                raised += self._dissolve(entry.name)
        return raised

    def _dissolve(self, name: str) -> int:
        """How many folders have come to the top in its place."""
        raised = 0
        folder = _unlocked(self._top, name)
        try:
            for entry in _entries(folder):
                self._count()
                if not _gone(folder, entry):
                    # A folder that its owner may not write to is not moved either.
                    os.close(_unlocked(folder, entry.name))
                    os.rename(entry.name, ".removed-%s" % uuid.uuid4(), src_dir_fd=folder, dst_dir_fd=self._top)
                    raised += 1
        finally:
            os.close(folder)
        os.rmdir(name, dir_fd=self._top)
        return raised

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise _Enough


def remove_some(parent: int, name: str) -> bool:
    """Whether it is gone, or another request is needed."""
    top = _unlocked(parent, name)
    try:
        _Removal(top).empty()
    except _Enough:
        return False
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=parent)
    return True


def _gone(parent: int, entry: "os.DirEntry[str]") -> bool:
    """Removes it, unless it is a folder with something in it."""
    if not entry.is_dir(follow_symlinks=False):
        unlink(parent, entry.name)
        return True
    try:
        os.rmdir(entry.name, dir_fd=parent)
    except FileNotFoundError:
        return True
    except OSError as error:
        # A mount is busy: it is not entered.
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True


def _entries(folder: int) -> "Iterator[os.DirEntry[str]]":
    with os.scandir(folder) as entries:
        yield from entries


def _unlocked(parent: int, name: str) -> int:
    """Opens a folder to be emptied: its owner may, whatever it has taken from itself."""
    way = os.open(name, WAY | os.O_NOFOLLOW, dir_fd=parent)
    try:
        if os.fstat(way).st_mode & 0o700 != 0o700:
            try:
                os.chmod("/proc/self/fd/%d" % way, 0o700)
            except OSError:
                pass  # who does not own it finds out what may be done there
        return os.open(".", FOLDER, dir_fd=way)
    finally:
        os.close(way)
