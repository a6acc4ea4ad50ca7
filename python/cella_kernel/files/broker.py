"""Reads and writes the files of sessions for a server that runs as root, with the rights of each session's code.

One process serves all sessions. It reads a request from each line of stdin and answers on stdout. For each request, a
thread switches to the user of the code, which takes root's rights over files from it, and resolves names below the folder
of the session. If the code sees the folder through an idmapped mount, so does the thread.

File contents do not pass through this process. The server opens `/proc/PID/fd/N`, where N is a descriptor of this process,
and says when it no longer needs it. PID is the holder: a second process that shares only the descriptors. A server without
CAP_SYS_PTRACE cannot see the descriptors of a process that changes its user, as this one does all the time.

The server decides about the order of requests (src/environments/files/file-broker.ts): it sends no more at a time than this
process has threads.
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
import threading
import uuid
from typing import Any, Callable, Dict, NamedTuple

from ..sandbox import linux
from . import folder_ops
from .folder_ops import FOLDER_FLAGS
from .root import IDLE_SECONDS, Refusal, Root, Views

_MOST_WAITING = 1024
_MOST_OPEN = 4096
_MOST_MESSAGE = 1000

_FILE_MODE = 0o644
# An error code in addition to those of the system: there is no file to read.
_NO_FILE = "ENOFILE"


class Held(NamedTuple):
    """What to do with a descriptor later, and as which user, even if the folder of the session is gone by then."""

    parent: int = -1
    partial: str = ""
    name: str = ""
    uid: int = 0
    gid: int = 0


class Opened:
    """The descriptors that the server knows."""

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


def _entry(name: str, facts: os.stat_result) -> Dict[str, Any]:
    return folder_ops.entry_of(os.fsencode(name), facts)


class Broker:
    def __init__(self, holder: int) -> None:
        self._views = Views()
        self._opened = Opened()
        self._holder = holder

    def handle(self, request: Dict[str, Any]) -> Any:
        """Handles a request. This thread switches to the session's user, and back to root."""
        op = str(request["op"])
        if op == "more":
            return self._next_page(request["args"]["fd"])
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
        """Uses only open descriptors, and closes them even if the folder is gone."""
        held = self._opened.take(fd)
        try:
            _become(held.uid, held.gid)
            return work(fd, held)
        finally:
            _become(0, 0)
            os.close(fd)
            os.close(held.parent)

    def _next_page(self, fd: int) -> Any:
        """The next page of a folder, without resolving the folder of the session again."""
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
            os._exit(1)  # without the holder, the server can open no file

    def do_close(self, fd: int) -> None:
        parent = self._opened.take(fd).parent
        os.close(fd)
        if parent >= 0:
            os.close(parent)

    def do_list(self, root: Root, path: str) -> Dict[str, Any]:
        """The first page. `more` returns the next one, by the descriptor of the folder."""
        return self._page(root.open(path, FOLDER_FLAGS), Held(uid=root.uid, gid=root.gid))

    def _page(self, folder: int, held: Held) -> Dict[str, Any]:
        try:
            files, over = folder_ops.read_page(folder)
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
        # Checked before opening, as opening a pipe or a device has effects.
        handle = root.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            facts = os.fstat(handle)
            if not stat.S_ISREG(facts.st_mode):
                raise Refusal("EISDIR" if stat.S_ISDIR(facts.st_mode) else _NO_FILE)
            fd = os.open("/proc/self/fd/%d" % handle, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        finally:
            os.close(handle)
        return {**_entry(path.rpartition("/")[2], facts), **self._hand_out(fd)}

    def do_folder(self, root: Root, path: str) -> Dict[str, Any]:
        return self._hand_out(root.open(path, FOLDER_FLAGS))

    def do_create(self, root: Root, path: str) -> Dict[str, Any]:
        """Creates a file with a temporary name in the target folder; `commit` renames it."""
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
        return self._hand_out(fd, Held(parent, partial, name, root.uid, root.gid))

    def do_commit(self, fd: int, held: Held) -> Dict[str, Any]:
        try:
            os.rename(held.partial, held.name, src_dir_fd=held.parent, dst_dir_fd=held.parent)
        except OSError:
            folder_ops.unlink(held.parent, held.partial)
            raise
        return _entry(held.name, os.fstat(fd))

    def do_discard(self, _fd: int, held: Held) -> None:
        folder_ops.unlink(held.parent, held.partial)

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
                    folder_ops.rename_to_free(source, name, target, new)
                return _entry(new, os.stat(new, dir_fd=target, follow_symlinks=False))
            finally:
                os.close(target)
        finally:
            os.close(source)

    def do_remove(self, root: Root, path: str, recursive: bool) -> bool:
        """Returns True when it is gone. A large folder takes several requests, so that this thread is soon free for others."""
        parent, name = root.parent(path)
        try:
            if not stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
                os.unlink(name, dir_fd=parent)
                return True
            if recursive:
                return folder_ops.remove_some(parent, name)
            os.rmdir(name, dir_fd=parent)
            return True
        finally:
            os.close(parent)

    def _hand_out(self, fd: int, held: Held = Held()) -> Dict[str, Any]:
        try:
            self._opened.add(fd, held)
        except OSError:
            if held.parent >= 0:
                folder_ops.unlink(held.parent, held.partial)
                os.close(held.parent)
            raise
        # The server opens the descriptor, and compares device and inode.
        facts = os.fstat(fd)
        return {"pid": self._holder, "fd": fd, "device": str(facts.st_dev), "inode": str(facts.st_ino)}


def _check_replaceable(parent: int, name: str) -> None:
    try:
        mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISREG(mode) and not stat.S_ISLNK(mode):
        raise Refusal(_NO_FILE)


def _become(uid: int, gid: int) -> None:
    """Switches the file access rights of this thread. As another user than root, it has none of root's rights."""
    for name, number in (("setfsgid", gid), ("setfsuid", uid)):
        linux.syscall(name, ctypes.c_uint(number))
        # The call does not report failure, but returns the previous id.
        if linux.syscall(name, ctypes.c_uint(0xFFFFFFFF)) & 0xFFFFFFFF != number:
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
    # The system call changes this thread only; the library function would change all threads.
    if linux.syscall("setgroups", ctypes.c_size_t(0), None) != 0:
        os._exit(1)
    while True:
        request = json.loads(requests.get())
        answer = json.dumps(_answer(broker, request), ensure_ascii=False).encode("utf-8", "replace") + b"\n"
        with writing:
            while answer:
                answer = answer[os.write(1, answer) :]


def _start_holder() -> int:
    """Starts a process that shares the descriptors and stays root's, so that the server can see them in /proc."""
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
    # Ctrl-C in the server's terminal does not end this process; it ends with the server.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.umask(0)
    # Before there are threads, as only a process with one thread can be cloned.
    broker = Broker(_start_holder())
    requests: "queue.Queue[bytes]" = queue.Queue(_MOST_WAITING)
    writing = threading.Lock()
    for _ in range(options["threads"]):
        threading.Thread(target=_serve, args=(broker, requests, writing), daemon=True).start()
    pending = b""
    while True:
        ready = select.select([0], [], [], IDLE_SECONDS / 2)[0]
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
