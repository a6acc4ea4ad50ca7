"""Landlock: which files a process may read or write, in addition to permissions and mounts."""

from __future__ import annotations

import ctypes
import os
import stat
import struct

from .linux import LayerError, check, syscall

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
TRUNCATE, IOCTL_DEV = 1 << 14, 1 << 15
_READ = EXECUTE | READ_FILE | READ_DIR
_ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV

# The number of access rights in each version of the interface.
_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}
_SCOPE_ABSTRACT_SOCKETS, _SCOPE_SIGNALS = 1, 2


def abi() -> int:
    """The version of Landlock in this Linux kernel, or 0 if there is none."""
    version = syscall("landlock_create_ruleset", None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    return max(version, 0)


class Ruleset:
    """What this process may do after `restrict`."""

    def __init__(self) -> None:
        version = abi()
        if version < 1:
            raise LayerError("landlock", "this kernel has no Landlock, or it is turned off")
        self._all = (1 << _RIGHTS.get(version, 16)) - 1
        # Forbids signals to processes outside, and abstract sockets that were created outside.
        scope = (_SCOPE_ABSTRACT_SOCKETS | _SCOPE_SIGNALS) if version >= 6 else 0
        attributes = struct.pack("QQQ", self._all, 0, scope)
        size = ctypes.c_size_t(24 if version >= 6 else 16 if version >= 4 else 8)
        created = syscall("landlock_create_ruleset", attributes, size, ctypes.c_uint32(0))
        self.fd = check(created, "landlock", "landlock_create_ruleset")

    def allow_listing(self, path: str) -> None:
        """Allows listing folders below it, but not opening files."""
        self._allow(path, READ_DIR)

    def allow_reading(self, path: str) -> None:
        self._allow(path, _READ)

    def allow_writing(self, path: str) -> None:
        self._allow(path, self._all)

    def restrict(self) -> None:
        """Restricts this process permanently. Needs no_new_privs."""
        restricted = syscall("landlock_restrict_self", ctypes.c_int(self.fd), ctypes.c_uint32(0))
        check(restricted, "landlock", "landlock_restrict_self")
        self.close()

    def close(self) -> None:
        os.close(self.fd)

    def _allow(self, path: str, access: int) -> None:
        try:
            handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            return  # nothing to allow
        try:
            if not stat.S_ISDIR(os.fstat(handle).st_mode):
                access &= _ON_FILES
            rule = struct.pack("=Qi", access & self._all, handle)
            added = syscall("landlock_add_rule", ctypes.c_int(self.fd), ctypes.c_int(1), rule, ctypes.c_uint32(0))
            check(added, "landlock", "landlock_add_rule(%s)" % path)
        finally:
            os.close(handle)
