"""Idmapped mounts: a folder of somebody else's appears as the sandbox's own, and keeps its owner on disk."""

from __future__ import annotations

import ctypes
import os
import signal
import struct

from .linux import NEWUSER, LayerError, check, clone, syscall

_AT_FDCWD, _AT_EMPTY_PATH, _AT_RECURSIVE = -100, 0x1000, 0x8000
_OPEN_TREE_CLONE, _MOVE_MOUNT_F_EMPTY_PATH = 1, 4
_ATTR_IDMAP = 0x00100000


def bring(source: str, target: str, owner: "tuple[int, int]", uid: int, gid: int) -> None:
    """Mounts `source` on `target` with the disk's `owner` shown as `uid` and `gid`."""
    tree = check(
        syscall("open_tree", ctypes.c_int(_AT_FDCWD), os.fsencode(source), ctypes.c_uint(_OPEN_TREE_CLONE | os.O_CLOEXEC)),
        "workspace",
        "open_tree(%s)" % source,
    )
    try:
        namespace = _user_namespace(owner, uid, gid)
        try:
            block = struct.pack("QQQQ", _ATTR_IDMAP, 0, 0, namespace)
            flags = ctypes.c_uint(_AT_EMPTY_PATH)
            mapped = syscall("mount_setattr", ctypes.c_int(tree), b"", flags, block, ctypes.c_size_t(32))
            check(mapped, "workspace", "idmapped mount of %s" % source)
        finally:
            os.close(namespace)
        flags = ctypes.c_uint(_MOVE_MOUNT_F_EMPTY_PATH)
        moved = syscall("move_mount", ctypes.c_int(tree), b"", ctypes.c_int(_AT_FDCWD), os.fsencode(target), flags)
        check(moved, "workspace", "move_mount on %s" % target)
    finally:
        os.close(tree)


def _user_namespace(owner: "tuple[int, int]", uid: int, gid: int) -> int:
    """A descriptor of a user namespace that maps the owner on disk to the sandbox's ids; no process stays in it."""
    pid = clone(NEWUSER)
    if pid == 0:
        signal.pause()
        os._exit(0)
    try:
        for name, line in (("uid_map", (owner[0], uid)), ("gid_map", (owner[1], gid))):
            with open("/proc/%d/%s" % (pid, name), "w", encoding="ascii") as file:
                file.write("%d %d 1\n" % line)
        return os.open("/proc/%d/ns/user" % pid, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise LayerError("workspace", "user namespace for an idmapped mount: %s" % error) from error
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
