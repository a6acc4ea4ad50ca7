"""Tells what is in a folder, page by page: nobody waits long for the thread that reads one, and no answer is large."""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from typing import Any, Dict, Iterator, List, Optional, Tuple

from cella_kernel.sandbox import linux

# A page ends after the read that reaches this many entries; one read has at most 682.
_PAGE = 500
_READ_BYTES = 16 * 1024
_HEAD = struct.Struct("=QqHB")
_KINDS = {4: stat.S_IFDIR, 8: stat.S_IFREG, 10: stat.S_IFLNK}
_OTHER = stat.S_IFIFO


def read_page(folder: int) -> "Tuple[List[Dict[str, Any]], bool]":
    """What follows the last page, and whether that was the end."""
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
        for name, kind in _names(buffer.raw[:size]):
            seen += 1
            found = _listed(folder, name, kind)
            if found:
                files.append(found)
    return files, False


def entry_of(name: bytes, facts: os.stat_result) -> Dict[str, Any]:
    return _entry(name, facts.st_mode, facts.st_size, facts.st_mtime_ns // 1_000_000)


def _entry(name: bytes, mode: int, size: int = 0, modified_ms: int = 0) -> Dict[str, Any]:
    return {"name": name.decode("utf-8", "replace"), "kind": _kind(mode), "size": size, "modifiedAt": modified_ms}


def _names(entries: bytes) -> "Iterator[Tuple[bytes, int]]":
    at = 0
    while at < len(entries):
        _, _, length, kind = _HEAD.unpack_from(entries, at)
        name = entries[at + _HEAD.size : entries.index(b"\0", at + _HEAD.size)]
        at += length
        if name not in (b".", b".."):
            yield name, kind


def _listed(folder: int, name: bytes, kind: int) -> Optional[Dict[str, Any]]:
    try:
        return entry_of(name, os.stat(name, dir_fd=folder, follow_symlinks=False))
    except FileNotFoundError:
        return None  # gone meanwhile
    except OSError:
        # A folder that may be read and not searched tells names alone.
        return _entry(name, _KINDS.get(kind, _OTHER))


def _kind(mode: int) -> str:
    if stat.S_ISREG(mode):
        return "file"
    return "folder" if stat.S_ISDIR(mode) else "link" if stat.S_ISLNK(mode) else "other"
