"""Does the file work of a server that runs as root, with the rights that the code of each session has.

One process for all sessions, which reads a request from each line of stdin and answers on stdout. For each request a
thread takes on the user of the code (a user other than root loses root's rights over files by that), and looks names
up beneath a folder that is the session's. Where the code sees the folder through an idmapped mount, so does the thread.

Content does not pass through here: the server opens `/proc/PID/fd/N`, where N is a descriptor of this process's, and
says when it is done with that. PID is a second process that shares the descriptors and nothing else: a process that has
changed its user is hidden there from a server without CAP_SYS_PTRACE, and this one does so all the time.

Which request comes first is for the server to say (src/environments/files/file-broker.ts): it sends no more of them at a time
than there are threads here.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import queue
import select
import signal
import stat
import struct
import threading
import time
import uuid
from collections import OrderedDict
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from cella_kernel import file_listing as listing
from cella_kernel import file_moving as moving
from cella_kernel import file_removal as removal
from cella_kernel.file_removal import FOLDER, WAY
from cella_kernel.file_walk import Walk
from cella_kernel.sandbox import linux, mounts
from cella_kernel.sandbox.linux import LayerError

_MOST_WAITING = 1024
# Views of idmapped folders are kept for a while: making one costs more than all else.
_MOST_VIEWS = 64
_IDLE_SECONDS = 20
_MOST_OPEN = 4096
_MOST_MESSAGE = 1000

_BENEATH, _NO_MAGIC, _NO_XDEV = 0x08, 0x02, 0x01
_FOLDER_MODE, _FILE_MODE = 0o755, 0o644

# Codes of our own, beside those of the system.
REPLACED, NO_FILE = "EREPLACED", "ENOFILE"


class Refusal(Exception):
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
        """A descriptor that the caller closes."""
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
            old = time.monotonic() - _IDLE_SECONDS
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


class Held(NamedTuple):
    """What is to be done about a descriptor, and for whom: the folder of the session may be gone by then."""

    parent: int = -1
    partial: str = ""
    name: str = ""
    uid: int = 0
    gid: int = 0


class Opened:
    """Descriptors that the server was told of."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: Dict[int, Held] = {}

    def add(self, fd: int, held: Held) -> None:
        with self._lock:
            if len(self._held) >= _MOST_OPEN:
                os.close(fd)
                raise OSError(errno.EMFILE, "too many files are open")
            self._held[fd] = held

    def take(self, fd: int) -> Held:
        with self._lock:
            return self._held.pop(fd)


class Root:
    """The folder of one request, held open; `close` lets go of it."""

    def __init__(self, wanted: Dict[str, Any], views: Views) -> None:
        self.uid, self.gid = int(wanted["uid"]), int(wanted["gid"])
        if self.uid == 0 or self.gid == 0:
            raise Refusal("EPERM", "root works for nobody")
        inside: Optional[str] = wanted.get("inside")
        self._walk = Walk(self._link, inside) if inside else None
        path, mapped = wanted["path"], bool(wanted.get("mapped"))
        try:
            folder = mounts.open_folder(path, wanted.get("id"))
        except LayerError as error:
            raise Refusal(REPLACED if os.path.lexists(path) else "ENOENT", error.message) from error
        self.fd = folder
        # The code does not see what is mounted below an idmapped folder.
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
        """Links that stay inside are followed."""
        try:
            return self._openat2(path, flags, self._resolve)
        except OSError as error:
            if error.errno not in (errno.EXDEV, errno.EAGAIN) or not self._walk:
                raise
        # An absolute link may lead to the folder by the name that the code has for it. And without `..` in it, a path
        # is found also while code renames things all the time.
        return self._openat2(self._walk.freed(path), flags, self._resolve | mounts.RESOLVE_NO_SYMLINKS)

    def parent(self, path: str, create: bool = False) -> "tuple[int, str]":
        """The folder that holds the last name of the path, which nobody has looked at yet."""
        above, _, name = path.rpartition("/")
        if create:
            self.make(above)
        return self.open(above, WAY), name

    def make(self, path: str) -> None:
        """The folders of a path that are missing."""
        try:
            os.close(self.open(path, WAY))
            return
        except FileNotFoundError:
            pass
        names = path.split("/")
        above = self.open("", WAY)
        try:
            for index, name in enumerate(names):
                try:
                    os.mkdir(name, _FOLDER_MODE, dir_fd=above)
                except FileExistsError:
                    pass  # by now, or before
                below = self._next(above, name, "/".join(names[: index + 1]))
                os.close(above)
                above = below
        finally:
            os.close(above)
        os.close(self.open(path, WAY))

    def _next(self, above: int, name: str, path: str) -> int:
        """The folder of that name. A link is followed from the beginning of the path."""
        try:
            return self._openat2(name, WAY, self._resolve | mounts.RESOLVE_NO_SYMLINKS, above)
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
        return self.open(path, WAY)

    def _openat2(self, path: str, flags: int, resolve: int, folder: Optional[int] = None) -> int:
        how = struct.pack("QQQ", flags, 0, resolve)
        beneath = ctypes.c_int(self.fd if folder is None else folder)
        for _ in range(16):
            fd = linux.syscall("openat2", beneath, os.fsencode(path or "."), how, ctypes.c_size_t(len(how)))
            if fd >= 0:
                return fd
            code = ctypes.get_errno()
            # Something was renamed meanwhile, and it cannot be told whether the path has left the folder.
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


def _entry(name: str, facts: os.stat_result) -> Dict[str, Any]:
    return listing.entry_of(os.fsencode(name), facts)


class Broker:
    def __init__(self, holder: int) -> None:
        self._views = Views()
        self._opened = Opened()
        self._holder = holder

    def handle(self, request: Dict[str, Any]) -> Any:
        """On a thread of its own identity: root before and after, the session's user in between."""
        op = str(request["op"])
        if op == "more":
            return self._go_on(request["args"]["fd"])
        work: Callable[..., Any] = getattr(self, "do_" + op)
        if op == "close":
            return work(request["fd"])
        if op in ("commit", "discard"):
            return self._finish(work, request["args"]["fd"])
        root = Root(request["root"], self._views)
        try:
            _become(root.uid, root.gid)
            return work(root, **request.get("args", {}))
        finally:
            _become(0, 0)
            root.close()

    def _finish(self, work: Callable[..., Any], fd: int) -> Any:
        """By what is held alone: whatever has become of the folder, nothing stays open."""
        held = self._opened.take(fd)
        try:
            _become(held.uid, held.gid)
            return work(fd, held)
        finally:
            _become(0, 0)
            os.close(fd)
            os.close(held.parent)

    def _go_on(self, fd: int) -> Any:
        """The next page. The folder of the session is not looked up again."""
        held = self._opened.take(fd)
        try:
            _become(held.uid, held.gid)
            return self._page(fd, held)
        finally:
            _become(0, 0)

    def sweep(self) -> None:
        self._views.sweep()

    def check_holder(self) -> None:
        if os.waitpid(self._holder, os.WNOHANG)[0]:
            os._exit(1)  # nobody can open anything here any more

    def do_close(self, fd: int) -> None:
        parent = self._opened.take(fd).parent
        os.close(fd)
        if parent >= 0:
            os.close(parent)

    def do_list(self, root: Root, path: str) -> Dict[str, Any]:
        """The first page. Where there is more, `more` gives it, by the descriptor of the folder."""
        return self._page(root.open(path, FOLDER), Held(uid=root.uid, gid=root.gid))

    def _page(self, folder: int, held: Held) -> Dict[str, Any]:
        try:
            files, over = listing.read_page(folder)
        except BaseException:
            os.close(folder)
            raise
        if over:
            os.close(folder)
            return {"files": files, "fd": None}
        self._opened.add(folder, held)
        return {"files": files, "fd": folder}

    def do_entry(self, root: Root, path: str) -> Dict[str, Any]:
        parent, name = root.parent(path)
        try:
            return _entry(name, os.stat(name, dir_fd=parent, follow_symlinks=False))
        finally:
            os.close(parent)

    def do_read(self, root: Root, path: str) -> Dict[str, Any]:
        # Looked at before it is opened: to open a pipe or a device does something.
        way = root.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            facts = os.fstat(way)
            if not stat.S_ISREG(facts.st_mode):
                raise Refusal("EISDIR" if stat.S_ISDIR(facts.st_mode) else NO_FILE)
            fd = os.open("/proc/self/fd/%d" % way, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        finally:
            os.close(way)
        return {**_entry(path.rpartition("/")[2], facts), **self._tell(fd)}

    def do_folder(self, root: Root, path: str) -> Dict[str, Any]:
        return self._tell(root.open(path, FOLDER))

    def do_create(self, root: Root, path: str) -> Dict[str, Any]:
        """A file beside the place where it is to be; `commit` puts it there."""
        parent, name = root.parent(path, create=True)
        try:
            _check_replaceable(parent, name)
            partial = ".%s.part" % uuid.uuid4()
            fd = os.open(
                partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, _FILE_MODE, dir_fd=parent
            )
        except BaseException:
            os.close(parent)
            raise
        return self._tell(fd, Held(parent, partial, name, root.uid, root.gid))

    def do_commit(self, fd: int, held: Held) -> Dict[str, Any]:
        try:
            os.rename(held.partial, held.name, src_dir_fd=held.parent, dst_dir_fd=held.parent)
        except OSError:
            removal.unlink(held.parent, held.partial)
            raise
        return _entry(held.name, os.fstat(fd))

    def do_discard(self, _fd: int, held: Held) -> None:
        removal.unlink(held.parent, held.partial)

    def do_make(self, root: Root, path: str) -> None:
        root.make(path)

    def do_move(self, root: Root, path: str, to: str, replace: bool) -> Dict[str, Any]:
        source, name = root.parent(path)
        try:
            os.stat(name, dir_fd=source, follow_symlinks=False)
            target, new = root.parent(to, create=True)
            try:
                if replace:
                    os.rename(name, new, src_dir_fd=source, dst_dir_fd=target)
                else:
                    moving.rename_to_free(source, name, target, new)
                return _entry(new, os.stat(new, dir_fd=target, follow_symlinks=False))
            finally:
                os.close(target)
        finally:
            os.close(source)

    def do_remove(self, root: Root, path: str, recursive: bool) -> bool:
        """True when it is gone. A large folder takes several requests, so that nobody waits long for this thread."""
        parent, name = root.parent(path)
        try:
            if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
                os.unlink(name, dir_fd=parent)
                return True
            if recursive:
                return removal.remove_some(parent, name)
            os.rmdir(name, dir_fd=parent)
            return True
        finally:
            os.close(parent)

    def _tell(self, fd: int, held: Held = Held()) -> Dict[str, Any]:
        try:
            self._opened.add(fd, held)
        except OSError:
            if held.parent >= 0:
                removal.unlink(held.parent, held.partial)
                os.close(held.parent)
            raise
        # What the server opens, and by what it knows that it has opened that.
        facts = os.fstat(fd)
        return {"pid": self._holder, "fd": fd, "device": str(facts.st_dev), "inode": str(facts.st_ino)}


def _check_replaceable(parent: int, name: str) -> None:
    try:
        mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode) and not stat.S_ISLNK(mode):
        raise Refusal(NO_FILE)


def _become(uid: int, gid: int) -> None:
    """This thread alone. Whoever is not root has none of root's rights over files."""
    for name, wanted in (("setfsgid", gid), ("setfsuid", uid)):
        linux.syscall(name, ctypes.c_uint(wanted))
        # It says nothing of failing, but tells who one was.
        if linux.syscall(name, ctypes.c_uint(0xFFFFFFFF)) & 0xFFFFFFFF != wanted:
            os._exit(1)


def _answer(broker: Broker, request: Dict[str, Any]) -> Dict[str, Any]:
    try:
        return {"id": request["id"], "result": broker.handle(request)}
    except Refusal as error:
        code, message = error.code, str(error)
    except OSError as error:
        code, message = errno.errorcode.get(error.errno or 0, "EIO"), str(error)
    except Exception as error:
        code, message = "EIO", "%s: %s" % (type(error).__name__, error)
    return {"id": request["id"], "error": code, "message": message[:_MOST_MESSAGE]}


def _serve(broker: Broker, requests: "queue.Queue[bytes]", writing: threading.Lock) -> None:
    # By the system call itself, which is for this thread; the library's is for all.
    if linux.syscall("setgroups", ctypes.c_size_t(0), None) != 0:
        os._exit(1)
    while True:
        request = json.loads(requests.get())
        answer = json.dumps(_answer(broker, request), ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        with writing:
            while answer:
                answer = answer[os.write(1, answer) :]


def _start_holder() -> int:
    """A process with the same descriptors and memory of its own, which stays root's and so is seen in /proc by root."""
    parent = os.getpid()
    pid = linux.clone(linux.FILES)
    if pid:
        return pid
    linux.die_with_parent()
    linux.set_dumpable(True)
    while os.getppid() == parent:
        signal.pause()
    os._exit(0)


def main(options: Dict[str, Any]) -> None:
    # The server's terminal is not for this process; it ends with the server.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.umask(0)
    # Before there are threads: what is cloned has one.
    broker = Broker(_start_holder())
    requests: "queue.Queue[bytes]" = queue.Queue(_MOST_WAITING)
    writing = threading.Lock()
    for _ in range(options["threads"]):
        threading.Thread(target=_serve, args=(broker, requests, writing), daemon=True).start()
    pending = b""
    while True:
        ready = select.select([0], [], [], _IDLE_SECONDS / 2)[0]
        broker.check_holder()
        if not ready:
            broker.sweep()
            continue
        chunk = os.read(0, 1 << 16)
        if not chunk:
            os._exit(0)
        *lines, pending = (pending + chunk).split(b"\n")
        for line in lines:
            requests.put(line)
