"""The folder of one session, and how names below it are resolved: never outside of it, whatever links the code creates.

Linux does not follow absolute links below a folder, so links that stay inside are resolved here. 40 links can contain
80,000 names, so the names that one request resolves are counted.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
import threading
import time
from collections import OrderedDict
from typing import Any, Callable, Dict, List, Optional, Tuple

from ..sandbox import linux, mounts
from ..sandbox.linux import LayerError
from .folder_ops import PATH_FLAGS

# Idmapped views are kept for a while, as creating one takes longer than the rest of a request.
_MOST_VIEWS = 64
IDLE_SECONDS = 20
_BENEATH, _NO_MAGIC, _NO_XDEV = 0x08, 0x02, 0x01
_FOLDER_MODE = 0o755
# Links in one path, as in Linux.
_MOST_LINKS = 40
_MOST_NAMES = 4096
# An error code in addition to those of the system: the folder was replaced.
_REPLACED = "EREPLACED"


class Refusal(Exception):
    """The request is refused. The server knows `code`."""

    def __init__(self, code: str, message: str = "") -> None:
        super().__init__(message or code)
        self.code = code


class Views:
    """Idmapped copies of folders, by the folder and its owner."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._views: "OrderedDict[tuple, Tuple[int, float]]" = OrderedDict()
        self._namespaces: "OrderedDict[tuple, int]" = OrderedDict()

    def copy(self, folder: int, path: str, uid: int, gid: int) -> int:
        """A descriptor of the view, which the caller closes."""
        facts = os.fstat(folder)
        key = (facts.st_dev, facts.st_ino, facts.st_uid, facts.st_gid, uid, gid)
        with self._lock:
            known = self._views.pop(key, None)
            view = known[0] if known else self._make(folder, path, key)
            self._views[key] = (view, time.monotonic())
            if len(self._views) > _MOST_VIEWS:
                os.close(self._views.popitem(last=False)[1][0])
            return os.dup(view)

    def sweep(self) -> None:
        with self._lock:
            old = time.monotonic() - IDLE_SECONDS
            for key in [key for key, (_, used) in self._views.items() if used < old]:
                os.close(self._views.pop(key)[0])

    def _make(self, folder: int, path: str, key: tuple) -> int:
        _, _, owner, group, uid, gid = key
        who = (owner, group, uid, gid)
        namespace = self._namespaces.pop(who, None)
        if namespace is None:
            namespace = mounts.user_namespace((owner, group), uid, gid)
        self._namespaces[who] = namespace
        if len(self._namespaces) > _MOST_VIEWS:
            os.close(self._namespaces.popitem(last=False)[1])
        return mounts.detached_mount(folder, path, mounts.ATTR_NOSUID | mounts.ATTR_NODEV, namespace)


class Root:
    """The folder of one request, held open until `close`."""

    def __init__(self, request: Dict[str, Any], views: Views) -> None:
        self.uid, self.gid = int(request["uid"]), int(request["gid"])
        if self.uid == 0 or self.gid == 0:
            raise Refusal("EPERM", "no request may run as root")
        inside: Optional[str] = request.get("inside")
        self._links = LinkResolver(self._link, inside) if inside else None
        path, mapped = request["path"], bool(request.get("mapped"))
        try:
            folder = mounts.open_folder(path, request.get("id"))
        except LayerError as error:
            raise Refusal(_REPLACED if os.path.lexists(path) else "ENOENT", error.message) from error
        self.fd = folder
        # The code does not see mounts below an idmapped folder.
        self._resolve = _BENEATH | _NO_MAGIC | (_NO_XDEV if mapped else 0)
        if mapped:
            try:
                self.fd = views.copy(folder, path, self.uid, self.gid)
            except LayerError as error:
                raise Refusal("EPERM", error.message) from error
            finally:
                os.close(folder)

    def close(self) -> None:
        os.close(self.fd)

    def open(self, path: str, flags: int) -> int:
        """Opens a path. Follows links that stay inside the folder."""
        try:
            return self._openat2(path, flags, self._resolve)
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EAGAIN) or not self._links:
                raise
        # An absolute link may name the folder as the code sees it. A path without `..` can also be resolved while code keeps
        # renaming folders.
        return self._openat2(self._links.without_links(path), flags, self._resolve | mounts.RESOLVE_NO_SYMLINKS)

    def parent(self, path: str, create: bool = False) -> "tuple[int, str]":
        """The folder of the last name of a path, and that name, which is not resolved yet."""
        above, _, name = path.rpartition("/")
        if create:
            self.make(above)
        return self.open(above, PATH_FLAGS), name

    def make(self, path: str) -> None:
        """Creates the missing folders of a path."""
        try:
            os.close(self.open(path, PATH_FLAGS))
            return
        except FileNotFoundError:
            pass
        names = path.split("/")
        above = self.open("", PATH_FLAGS)
        try:
            for index, name in enumerate(names):
                try:
                    os.mkdir(name, _FOLDER_MODE, dir_fd=above)
                except FileExistsError:
                    pass  # it exists
                below = self._next(above, name, "/".join(names[: index + 1]))
                os.close(above)
                above = below
        finally:
            os.close(above)
        os.close(self.open(path, PATH_FLAGS))

    def _next(self, above: int, name: str, path: str) -> int:
        """Opens the folder of this name. Follows a link from the beginning of the path."""
        try:
            return self._openat2(name, PATH_FLAGS, self._resolve | mounts.RESOLVE_NO_SYMLINKS, above)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
        return self.open(path, PATH_FLAGS)

    def _openat2(self, path: str, flags: int, resolve: int, folder: Optional[int] = None) -> int:
        how = struct.pack("QQQ", flags, 0, resolve)
        beneath = ctypes.c_int(self.fd if folder is None else folder)
        for _ in range(16):
            fd = linux.syscall("openat2", beneath, os.fsencode(path or "."), how, ctypes.c_size_t(len(how)))
            if fd >= 0:
                return fd
            code = ctypes.get_errno()
            # EAGAIN: during a rename, Linux cannot say whether the path leaves the folder.
            if code != errno.EAGAIN:
                break
        raise OSError(code, os.strerror(code), path)

    def _link(self, path: str) -> Optional[str]:
        how = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            fd = self._openat2(path, how, self._resolve)
        except FileNotFoundError:
            return None
        try:
            return os.readlink("", dir_fd=fd) if stat.S_ISLNK(os.fstat(fd).st_mode) else None
        finally:
            os.close(fd)


class LinkResolver:
    """`link_at`: returns the target of the link at a path, or None. `inside`: the path of the folder as the code sees it."""

    def __init__(self, link_at: Callable[[str], Optional[str]], inside: str) -> None:
        self._link_at = link_at
        self._inside = inside.rstrip("/")
        self._names_left = _MOST_NAMES

    def without_links(self, path: str) -> str:
        """The path with all links resolved, as far as it exists."""
        # A stack: the next name is last.
        left = self._names(path)
        done: List[str] = []
        links = 0
        while left:
            name = left.pop()
            if name in ("", "."):
                continue
            if name == "..":
                if not done:
                    raise OSError(errno.EXDEV, "the path leads out of the folder", path)
                done.pop()
                continue
            target = self._link_at("/".join([*done, name]))
            if target is None:
                done.append(name)
                continue
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, "too many links", path)
            if target.startswith("/"):
                target = self._below(target, path)
                done = []
            left += self._names(target)
        return "/".join(done)

    def _names(self, path: str) -> List[str]:
        names = path.split("/")
        self._names_left -= len(names)
        if self._names_left < 0:
            raise OSError(errno.ELOOP, "too many names in links", path[:200])
        return names[::-1]

    def _below(self, target: str, path: str) -> str:
        whole = target.rstrip("/")
        if whole != self._inside and not whole.startswith(self._inside + "/"):
            raise OSError(errno.EXDEV, "the path leads out of the folder", path)
        return whole[len(self._inside) + 1 :]
