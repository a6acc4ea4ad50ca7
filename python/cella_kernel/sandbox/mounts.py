"""The file tree of a sandbox: its own root with the read-only system, the workspace and scratch space.

The template builds a *stage* once: the read-only parts that all sandboxes share. Each sandbox then builds its own root
from the stage in its own mount namespace, and unmounts the host's tree.

Folders of the host come as detached mounts: the template opens them and passes the descriptors to pid 1, which attaches
them. So a sandbox never has access to more of the host's tree than its own folders. If a folder has another owner, the
mount is idmapped: inside, it belongs to the sandbox's user; on disk, it keeps its owner.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import struct
import sys
from typing import Any, Dict, Iterable, List, Optional

from .linux import NEWUSER, LayerError, check, clone, libc, syscall

AT_FDCWD, _AT_EMPTY_PATH, AT_RECURSIVE = -100, 0x1000, 0x8000
_OPEN_TREE_CLONE, _MOVE_MOUNT_F_EMPTY_PATH = 1, 4
RESOLVE_NO_SYMLINKS = 0x04
ATTR_RDONLY, ATTR_NOSUID, ATTR_NODEV, ATTR_NOEXEC, _ATTR_IDMAP = 1, 2, 4, 8, 0x00100000
_NOSUID, _NODEV, _NOEXEC, _REMOUNT, _BIND = 2, 4, 8, 32, 4096
_REC, _PRIVATE = 16384, 1 << 18
_DETACH = 2

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32", "/nix/store", "/gnu/store")
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_ETC = (
    "alternatives", "fonts", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime", "timezone", "mime.types",
    "matplotlibrc", "python3", "python%d.%d" % sys.version_info[:2], "ssl/certs", "ssl/openssl.cnf", "ca-certificates", "pki/tls/certs", "pki/ca-trust/extracted", "services", "protocols", "magic", "xdg",
    "host.conf", "gai.conf", "os-release", "debian_version",
)  # fmt: skip
# Files of /etc that differ between sandboxes: links into the sandbox's own root.
_OWN = ("passwd", "group", "resolv.conf")


def _folders_in_order(spec: Dict[str, Any]) -> List[Dict[str, Any]]:
    """Read-only folders first, so that a workspace inside one stays writable."""
    return [*({**folder, "readOnly": True} for folder in spec["readable"]), *spec["writable"]]


def mount_point(folder: Dict[str, Any]) -> str:
    """The path inside the sandbox: the same as outside, unless the policy names another."""
    return folder.get("at") or folder["path"]


def open_folders(spec: Dict[str, Any]) -> List[int]:
    """A descriptor for each folder of the policy, in order."""
    trees: List[int] = []
    try:
        for folder in _folders_in_order(spec):
            trees.append(_open_detached(folder, spec["uid"], spec["gid"]))
    except LayerError:
        for tree in trees:
            os.close(tree)
        raise
    return trees


def _attach_mount(tree: int, target: str) -> None:
    flags = ctypes.c_uint(_MOVE_MOUNT_F_EMPTY_PATH)
    moved = syscall("move_mount", ctypes.c_int(tree), b"", ctypes.c_int(AT_FDCWD), os.fsencode(target), flags)
    check(moved, "workspace", "move_mount on %s" % target)
    os.close(tree)


def _open_detached(folder: Dict[str, Any], uid: int, gid: int) -> int:
    path, owner = folder["path"], folder.get("owner")
    folder_fd = open_folder(path, folder.get("id"))
    try:
        attributes = ATTR_NOSUID | ATTR_NODEV | (ATTR_RDONLY if folder.get("readOnly") else 0)
        namespace = user_namespace(owner, uid, gid) if owner else 0
        try:
            return detached_mount(folder_fd, path, attributes, namespace)
        finally:
            if namespace:
                os.close(namespace)
    finally:
        os.close(folder_fd)


def detached_mount(folder_fd: int, path: str, attributes: int, namespace: int) -> int:
    """A detached mount of a folder, idmapped if a namespace is given."""
    # Mounts inside the folder may not support idmapping, so they are left out then.
    deep = 0 if namespace else AT_RECURSIVE
    how = ctypes.c_uint(_OPEN_TREE_CLONE | os.O_CLOEXEC | _AT_EMPTY_PATH | deep)
    opened = syscall("open_tree", ctypes.c_int(folder_fd), b"", how)
    tree = check(opened, "workspace", "open_tree(%s)" % path)
    try:
        _set_attributes(tree, deep, attributes, 0, path)
        if namespace:
            # Private, so that later mounts of the host below the folder do not appear here.
            _set_attributes(tree, 0, _ATTR_IDMAP, namespace, path, _PRIVATE)
        return tree
    except LayerError:
        os.close(tree)
        raise


def open_folder(path: str, identity: Optional[Dict[str, str]] = None) -> int:
    """Opens a folder whose path and identity the host has determined. Fails if it was replaced since, or by a link."""
    how = struct.pack("QQQ", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, 0, RESOLVE_NO_SYMLINKS)
    folder = syscall("openat2", ctypes.c_int(AT_FDCWD), os.fsencode(path), how, ctypes.c_size_t(len(how)))
    if folder < 0:
        code = ctypes.get_errno()
        # A link or a file is in the path now, or nothing is.
        replaced = identity and code in (errno.ELOOP, errno.ENOTDIR, errno.ENOENT)
        layer = "replaced" if replaced else "workspace"
        raise LayerError(layer, "%s: %s" % (path, os.strerror(code)))
    facts = os.fstat(folder)
    if identity and (str(facts.st_dev), str(facts.st_ino)) != (identity["device"], identity["inode"]):
        os.close(folder)
        raise LayerError("replaced", "%s was replaced by another folder" % path)
    return folder


def _set_attributes(tree: int, deep: int, attributes: int, namespace: int, path: str, propagation: int = 0) -> None:
    block = struct.pack("QQQQ", attributes, 0, propagation, namespace)
    flags = ctypes.c_uint(_AT_EMPTY_PATH | deep)
    result = syscall("mount_setattr", ctypes.c_int(tree), b"", flags, block, ctypes.c_size_t(32))
    check(result, "workspace", "%s of %s" % ("idmapped mount" if namespace else "mount_setattr", path))


def user_namespace(owner: "tuple[int, int]", uid: int, gid: int) -> int:
    """A descriptor of a user namespace that maps the owner on disk to the sandbox's ids."""
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


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    result = libc.mount(
        source.encode(), os.fsencode(target), kind.encode() or None, ctypes.c_ulong(flags), options.encode() or None
    )
    check(result, "namespaces", "mount %s on %s" % (kind or source, target))


def _bind(source: str, target: str) -> None:
    result = libc.mount(os.fsencode(source), os.fsencode(target), None, ctypes.c_ulong(_BIND | _REC), None)
    check(result, "namespaces", "bind %s on %s" % (source, target))


def _restrict(target: str, attributes: int, recursive: bool = True) -> None:
    """Adds flags to a mount. Flags that the host has locked do not change."""
    block = struct.pack("QQQQ", attributes, 0, 0, 0)
    flags = AT_RECURSIVE if recursive else 0
    result = syscall(
        "mount_setattr", ctypes.c_int(AT_FDCWD), os.fsencode(target), ctypes.c_uint(flags), block, ctypes.c_size_t(32)
    )
    check(result, "namespaces", "mount_setattr on %s" % target)


class Stage:
    """The shared, read-only parts, mounted below one folder in the template's mount namespace."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._parts = os.path.join(folder, "parts")
        self._scratch = os.path.join(folder, "scratch")
        self._root = os.path.join(folder, "root")
        self.paths: List[str] = []
        self._links: Dict[str, str] = {}
        self._resolver = ""

    def build(self, packages: Iterable[str]) -> None:
        """Call it once, in a new mount namespace."""
        mount("none", "/", "", _REC | _PRIVATE)
        mount("tmpfs", self.folder, "tmpfs", _NOSUID | _NODEV, "mode=755,size=4m")
        for folder in (self._parts, self._scratch, self._root):
            os.mkdir(folder)
        for path in _SYSTEM:
            if os.path.islink(path):
                self._links[path] = os.readlink(path)
            elif os.path.isdir(path):
                self._add(path)
        for path in packages:
            if os.path.isdir(path) and not any(_within(path, have) for have in self.paths):
                self._add(path)
        self._build_etc()
        self._build_dev()
        if os.path.isfile("/etc/resolv.conf"):
            with open("/etc/resolv.conf", encoding="utf-8", errors="replace") as file:
                self._resolver = file.read()

    def _add(self, path: str) -> None:
        part = self._part(path)
        os.makedirs(part)
        _bind(path, part)
        _restrict(part, ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV)
        self.paths.append(path)

    def _part(self, path: str) -> str:
        return os.path.join(self._parts, path.strip("/").replace("/", "\\"))

    def _build_etc(self) -> None:
        etc = self._part("/etc")
        os.mkdir(etc)
        for name in _ETC:
            source, target = os.path.join("/etc", name), os.path.join(etc, name)
            if os.path.exists(source):
                os.makedirs(os.path.dirname(target), exist_ok=True)
            if os.path.islink(source):
                os.symlink(os.readlink(source), target)
            elif os.path.isdir(source):
                os.mkdir(target)
                _bind(source, target)
            elif os.path.isfile(source):
                _touch(target)
                _bind(source, target)
        _write(os.path.join(etc, "hosts"), "127.0.0.1 localhost\n::1 localhost\n")
        _write(os.path.join(etc, "nsswitch.conf"), "passwd: files\ngroup: files\nhosts: files dns\n")
        for name in _OWN:
            os.symlink("../.own/" + name, os.path.join(etc, name))
        _bind(etc, etc)
        _restrict(etc, ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV)

    def _build_dev(self) -> None:
        dev = self._part("/dev")
        os.mkdir(dev)
        for name in _DEVICES:
            if name == "tty" and not os.path.exists("/dev/tty"):
                continue  # a host may lack it, and few programs need it
            target = os.path.join(dev, name)
            _touch(target)
            _bind("/dev/" + name, target)
            _restrict(target, ATTR_NOSUID | ATTR_NOEXEC)
        for name, link in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
            os.symlink("/proc/self/fd" + link, os.path.join(dev, name))
        os.symlink("pts/ptmx", os.path.join(dev, "ptmx"))
        os.mkdir(os.path.join(dev, "shm"))
        os.mkdir(os.path.join(dev, "pts"))
        _bind(dev, dev)
        _restrict(dev, ATTR_RDONLY, recursive=False)

    def remove(self) -> None:
        libc.umount2(os.fsencode(self.folder), _DETACH)
        try:
            os.rmdir(self.folder)
        except OSError:
            pass  # the host has removed it

    def enter(self, network: str) -> None:
        """Builds and enters the root of a sandbox, without the parts of one session, and unmounts the host's tree."""
        mount("tmpfs", self._scratch, "tmpfs", _NOSUID | _NODEV, "mode=755,nr_inodes=100k")
        for name, mode in (("root", 0o755), ("tmp", 0o1777), ("shm", 0o1777)):
            folder = os.path.join(self._scratch, name)
            os.mkdir(folder)
            os.chmod(folder, mode)
        _bind(os.path.join(self._scratch, "root"), self._root)
        for path in self.paths + ["/etc", "/dev"]:
            _bind(self._part(path), self._folder(path))
        for path, link in self._links.items():
            os.symlink(link, self._root + path)
        mount("proc", self._folder("/proc"), "proc", _NOSUID | _NODEV | _NOEXEC)
        mount("devpts", self._root + "/dev/pts", "devpts", _NOSUID | _NOEXEC, "newinstance,ptmxmode=0666,mode=0620")
        _bind(os.path.join(self._scratch, "tmp"), self._folder("/tmp"))
        _bind(os.path.join(self._scratch, "shm"), self._root + "/dev/shm")
        os.mkdir(self._root + "/.own")
        if network == "host":
            _write(self._root + "/.own/resolv.conf", self._resolver)
        os.chdir(self._root)
        check(syscall("pivot_root", b".", b"."), "namespaces", "pivot_root")
        check(libc.umount2(b".", _DETACH), "namespaces", "umount of the host's tree")
        os.chdir("/")
        self._root = ""
        # Written ahead once, so that a spare has allocated the memory for it.
        self._write_own(0, 0, "/")

    def finish(self, spec: Dict[str, Any], folders: List[int]) -> None:
        """Attaches the folders of the session: detached mounts in the order of `_folders_in_order`."""
        for folder, tree in zip(_folders_in_order(spec), folders):
            _attach_mount(tree, self._folder(mount_point(folder)))
        self._write_own(spec["uid"], spec["gid"], spec["home"])
        size = "size=%d" % spec["limits"]["scratchBytes"]
        mount("tmpfs", "/tmp", "tmpfs", _REMOUNT | _NOSUID | _NODEV, size)
        _restrict("/", ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV, recursive=False)

    def _folder(self, path: str) -> str:
        target = self._root + path
        os.makedirs(target, exist_ok=True)
        return target

    def _write_own(self, uid: int, gid: int, home: str) -> None:
        _write("/.own/passwd", "cella:x:%d:%d:cella:%s:/bin/sh\n" % (uid, gid, home))
        _write("/.own/group", "cella:x:%d:\n" % gid)


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _touch(path: str) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
