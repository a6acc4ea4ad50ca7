"""Landlock: which files the process may read or write, whatever its uid and whatever is mounted."""

from __future__ import annotations

import ctypes
import os
import struct
from typing import Iterable

from .linux import LayerError, check, syscall

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
TRUNCATE, IOCTL_DEV = 1 << 14, 1 << 15
_READ = EXECUTE | READ_FILE | READ_DIR
_ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV

# Access bits that each version of the interface knows; the first four are those of version 1.
_FS_BITS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
_SCOPE_ABSTRACT_SOCKETS, _SCOPE_SIGNALS = 1, 2


def abi() -> int:
    """The version of Landlock in this kernel; 0 where there is none."""
    version = syscall("landlock_create_ruleset", None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    return max(version, 0)


def restrict(readable: Iterable[str], writable: Iterable[str]) -> None:
    """Limits this process, for good, to these folders. Needs no_new_privs."""
    version = abi()
    if version < 1:
        raise LayerError("landlock", "this kernel has no Landlock, or it is turned off")
    everything = (1 << _FS_BITS.get(version, 16)) - 1
    scope = (_SCOPE_ABSTRACT_SOCKETS | _SCOPE_SIGNALS) if version >= 6 else 0
    attributes = struct.pack("QQQ", everything, 0, scope)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = check(
        syscall("landlock_create_ruleset", attributes, ctypes.c_size_t(size), ctypes.c_uint32(0)),
        "landlock",
        "landlock_create_ruleset",
    )
    try:
        # Names may be listed everywhere in the sandbox's own root; that opens no file.
        _allow(ruleset, "/", READ_DIR)
        for paths, access in ((readable, _READ & everything), (writable, everything)):
            for path in paths:
                _allow(ruleset, path, access)
        restricted = syscall("landlock_restrict_self", ctypes.c_int(ruleset), ctypes.c_uint32(0))
        check(restricted, "landlock", "landlock_restrict_self")
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, access: int) -> None:
    try:
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return  # nothing there, so nothing to allow
    try:
        if not os.path.isdir(path):
            access &= _ON_FILES
        rule = struct.pack("=Qi", access, handle)
        added = syscall("landlock_add_rule", ctypes.c_int(ruleset), ctypes.c_int(1), rule, ctypes.c_uint32(0))
        check(added, "landlock", "landlock_add_rule(%s)" % path)
    finally:
        os.close(handle)
