"""Lists, renames and removes in folders that code has filled, in steps of bounded length.

A folder is listed page by page, so that no request blocks its thread for long and no answer is large. A rename never
replaces: it fails with EEXIST if the name is taken. A removal takes any depth and number of files.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
import uuid
from typing import Any, Dict, Iterator, List, Optional, Tuple

from ..sandbox import linux

# A page ends after the read that reaches this many entries; one read has at most 682.
_PAGE = 500
_READ_BYTES = 16 * 1024
_DIRENT = struct.Struct("=QqHB")
_KINDS = {4: stat.S_IFDIR, 8: stat.S_IFREG, 10: stat.S_IFLNK}
_OTHER = stat.S_IFIFO


def read_page(folder: int) -> "Tuple[List[Dict[str, Any]], bool]":
    """The entries after the last page, and whether these are the last ones."""
    files: List[Dict[str, Any]] = []
    seen = 0
    buffer = ctypes.create_string_buffer(_READ_BYTES)
    while seen < _PAGE:
        size = linux.syscall("getdents64", ctypes.c_int(folder), buffer, ctypes.c_size_t(_READ_BYTES))
        if size < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        if size == 0:
            return files, True
        for name, kind in _parse_names(buffer.raw[:size]):
            seen += 1
            found = _listed(folder, name, kind)
            if found:
                files.append(found)
    return files, False


def entry_of(name: bytes, facts: os.stat_result) -> Dict[str, Any]:
    return _entry(name, facts.st_mode, facts.st_size, facts.st_mtime_ns // 1_000_000)


def _entry(name: bytes, mode: int, size: int = 0, modified_ms: int = 0) -> Dict[str, Any]:
    return {"name": name.decode("utf-8", "replace"), "kind": _kind(mode), "size": size, "modifiedAt": modified_ms}


def _parse_names(entries: bytes) -> "Iterator[Tuple[bytes, int]]":
    at = 0
    while at < len(entries):
        _, _, length, kind = _DIRENT.unpack_from(entries, at)
        name = entries[at + _DIRENT.size : entries.index(b"\0", at + _DIRENT.size)]
        at += length
        if name not in (b".", b".."):
            yield name, kind


def _listed(folder: int, name: bytes, kind: int) -> Optional[Dict[str, Any]]:
    try:
        return entry_of(name, os.stat(name, dir_fd=folder, follow_symlinks=False))
    except FileNotFoundError:
        return None  # it was removed meanwhile
    except OSError:
        # The folder can be read but not searched: only names and kinds are known.
        return _entry(name, _KINDS.get(kind, _OTHER))


def _kind(mode: int) -> str:
    if stat.S_ISREG(mode):
        return "file"
    return "folder" if stat.S_ISDIR(mode) else "link" if stat.S_ISLNK(mode) else "other"


_NO_REPLACE = 1


def rename_to_free(source: int, name: str, target: int, new: str) -> None:
    """Renames atomically if the file system can, as code may take the new name at any time."""
    result = linux.syscall(
        "renameat2",
        ctypes.c_int(source),
        os.fsencode(name),
        ctypes.c_int(target),
        os.fsencode(new),
        ctypes.c_uint(_NO_REPLACE),
    )
    if result == 0:
        return
    code = ctypes.get_errno()
    # EINVAL may also mean that a folder is moved into itself. The rename below then fails with it again.
    if code not in (errno.EINVAL, errno.ENOSYS):
        raise OSError(code, os.strerror(code), new)
    if stat.S_ISDIR(os.stat(name, dir_fd=source, follow_symlinks=False).st_mode):
        _rename_folder(source, name, target, new)
        return
    os.link(name, new, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)
    try:
        os.unlink(name, dir_fd=source)
    except OSError:
        try:
            os.unlink(new, dir_fd=target)
        except OSError:
            pass  # the first failure is reported
        raise


def _rename_folder(source: int, name: str, target: int, new: str) -> None:
    """Takes the new name with an empty folder first: rename replaces only empty folders."""
    os.mkdir(new, dir_fd=target)
    try:
        os.rename(name, new, src_dir_fd=source, dst_dir_fd=target)
    except OSError:
        try:
            os.rmdir(new, dir_fd=target)
        except OSError:
            pass  # another file has taken the name
        raise


PATH_FLAGS = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK | os.O_CLOEXEC
_MOST_REMOVED = 2000


def unlink(parent: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=parent)
    except FileNotFoundError:
        pass  # the code has removed it


class _Enough(Exception):
    """One request has removed as many entries as it may."""


class _Removal:
    """Empties a folder. Moves deeper folders up into it, so that few folders are open at a time, at any depth."""

    def __init__(self, top: int) -> None:
        self._top = top
        self._left = _MOST_REMOVED

    def empty(self) -> None:
        while self._empty_once():
            pass

    def _empty_once(self) -> int:
        raised = 0
        for entry in _scan(self._top):
            self._count()
            if not _remove_entry(self._top, entry):
                raised += self._remove_subfolder(entry.name)
        return raised

    def _remove_subfolder(self, name: str) -> int:
        """Removes a subfolder. Returns how many of its folders were moved up."""
        raised = 0
        folder = _open_to_empty(self._top, name)
        try:
            for entry in _scan(folder):
                self._count()
                if not _remove_entry(folder, entry):
                    # A folder without write permission for its owner cannot be moved.
                    os.close(_open_to_empty(folder, entry.name))
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
    """Returns True if the folder is gone, False if another request is needed."""
    top = _open_to_empty(parent, name)
    try:
        _Removal(top).empty()
    except _Enough:
        return False
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=parent)
    return True


def _remove_entry(parent: int, entry: "os.DirEntry[str]") -> bool:
    """Removes a file or an empty folder. Returns False for any other folder."""
    if not entry.is_dir(follow_symlinks=False):
        unlink(parent, entry.name)
        return True
    try:
        os.rmdir(entry.name, dir_fd=parent)
    except FileNotFoundError:
        return True
    except OSError as error:
        # A mount point fails with EBUSY, and is not entered.
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        return False
    return True


def _scan(folder: int) -> "Iterator[os.DirEntry[str]]":
    with os.scandir(folder) as entries:
        yield from entries


def _open_to_empty(parent: int, name: str) -> int:
    """Opens a folder to empty it. Its owner gets all permissions first."""
    handle = os.open(name, PATH_FLAGS | os.O_NOFOLLOW, dir_fd=parent)
    try:
        if os.fstat(handle).st_mode & 0o700 != 0o700:
            try:
                os.chmod("/proc/self/fd/%d" % handle, 0o700)
            except OSError:
                pass  # owned by another user: the permissions decide
        return os.open(".", FOLDER_FLAGS, dir_fd=handle)
    finally:
        os.close(handle)
