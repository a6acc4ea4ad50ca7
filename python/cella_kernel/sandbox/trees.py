"""Folders of the host's as detached mounts: opened by the template, handed over as descriptors, attached by pid 1.

So a sandbox never holds more of the host's tree than its own folders. Where a folder has another owner, the mount is
idmapped: inside it belongs to the sandbox's user, on disk it keeps its owner.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
from typing import Any, Dict, List, Optional

from .linux import NEWUSER, LayerError, check, clone, syscall

AT_FDCWD, _AT_EMPTY_PATH, AT_RECURSIVE = -100, 0x1000, 0x8000
_OPEN_TREE_CLONE, _MOVE_MOUNT_F_EMPTY_PATH = 1, 4
RESOLVE_NO_SYMLINKS = 0x04
_PRIVATE = 1 << 18
ATTR_RDONLY, ATTR_NOSUID, ATTR_NODEV, ATTR_NOEXEC, _ATTR_IDMAP = 1, 2, 4, 8, 0x00100000


def in_order(spec: Dict[str, Any]) -> List[Dict[str, Any]]:
    """Read-only folders first: a workspace may lie inside one, and stays writable."""
    return [*({**folder, "readOnly": True} for folder in spec["readable"]), *spec["writable"]]


def place(folder: Dict[str, Any]) -> str:
    """Where it is inside: at the same path, unless the policy names another."""
    return folder.get("at") or folder["path"]


def open_all(spec: Dict[str, Any]) -> List[int]:
    """A descriptor for each folder of the policy, in order."""
    trees: List[int] = []
    try:
        for folder in in_order(spec):
            trees.append(_open(folder, spec["uid"], spec["gid"]))
    except LayerError:
        for tree in trees:
            os.close(tree)
        raise
    return trees


def attach(tree: int, target: str) -> None:
    flags = ctypes.c_uint(_MOVE_MOUNT_F_EMPTY_PATH)
    moved = syscall("move_mount", ctypes.c_int(tree), b"", ctypes.c_int(AT_FDCWD), os.fsencode(target), flags)
    check(moved, "workspace", "move_mount on %s" % target)
    os.close(tree)


def _open(folder: Dict[str, Any], uid: int, gid: int) -> int:
    path, owner = folder["path"], folder.get("owner")
    folder_fd = open_folder(path, folder.get("id"))
    try:
        attributes = ATTR_NOSUID | ATTR_NODEV | (ATTR_RDONLY if folder.get("readOnly") else 0)
        namespace = user_namespace(owner, uid, gid) if owner else 0
        try:
            return copy(folder_fd, path, attributes, namespace)
        finally:
            if namespace:
                os.close(namespace)
    finally:
        os.close(folder_fd)


def copy(folder_fd: int, path: str, attributes: int, namespace: int) -> int:
    """A detached mount of a folder. With a namespace it is idmapped."""
    # A mount inside the folder may not know idmapping, so a folder with another owner comes alone.
    deep = 0 if namespace else AT_RECURSIVE
    how = ctypes.c_uint(_OPEN_TREE_CLONE | os.O_CLOEXEC | _AT_EMPTY_PATH | deep)
    opened = syscall("open_tree", ctypes.c_int(folder_fd), b"", how)
    tree = check(opened, "workspace", "open_tree(%s)" % path)
    try:
        _set(tree, deep, attributes, 0, path)
        if namespace:
            # Private: what the host mounts below the folder later is not seen here.
            _set(tree, 0, _ATTR_IDMAP, namespace, path, _PRIVATE)
        return tree
    except LayerError:
        os.close(tree)
        raise


def open_folder(path: str, identity: Optional[Dict[str, str]] = None) -> int:
    """The host has resolved the path: if a link or another folder stands there by now, somebody has put it there."""
    how = struct.pack("QQQ", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, 0, RESOLVE_NO_SYMLINKS)
    opened = syscall("openat2", ctypes.c_int(AT_FDCWD), os.fsencode(path), how, ctypes.c_size_t(len(how)))
    folder = check(opened, "workspace", path)
    facts = os.fstat(folder)
    if identity and (str(facts.st_dev), str(facts.st_ino)) != (identity["device"], identity["inode"]):
        os.close(folder)
        raise LayerError("workspace", "%s is another folder by now" % path)
    return folder


def _set(tree: int, deep: int, attributes: int, namespace: int, path: str, propagation: int = 0) -> None:
    block = struct.pack("QQQQ", attributes, 0, propagation, namespace)
    flags = ctypes.c_uint(_AT_EMPTY_PATH | deep)
    result = syscall("mount_setattr", ctypes.c_int(tree), b"", flags, block, ctypes.c_size_t(32))
    check(result, "workspace", "%s of %s" % ("idmapped mount" if namespace else "mount_setattr", path))


def user_namespace(owner: "tuple[int, int]", uid: int, gid: int) -> int:
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
