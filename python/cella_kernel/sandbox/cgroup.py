"""Control groups, version 1 and 2: the limits of a sandbox as a whole, and whether a process was killed for memory.

If there is a controller for CPU time, each sandbox has one share, however many processes and sessions it starts, and all
sandboxes together have no more than the server.
"""

from __future__ import annotations

import errno
import os
from typing import Dict, Iterator, List, Optional, Tuple

from ..protocol import SUPERVISOR_MEMORY_BYTES
from .linux import LayerError, clone

# The file names of each version.
_FILES = {
    1: {"memory": "memory.limit_in_bytes", "pids": "pids.max", "oom": "memory.oom_control", "swap": "memory.memsw.limit_in_bytes"},
    2: {"memory": "memory.max", "pids": "pids.max", "oom": "memory.events", "swap": "memory.swap.max"},
}
_NEEDED = {"memory", "pids"}
# Where this process and those beside it are moved to, in a group that was delegated to them.
_SERVER = "cella-server"


class Group:
    """The control groups of one sandbox. Their files stay open, as the sandbox later unmounts the host's file tree."""

    def __init__(self, version: int, folders: Dict[str, str]) -> None:
        self._folders = folders
        self._version = version
        files = _FILES[version]
        try:
            for folder in set(folders.values()):
                os.mkdir(folder, 0o755)
            self._tasks = [_open(folder, "tasks") for folder in sorted(set(folders.values()))] if version == 1 else []
            self._memory = _open(folders["memory"], files["memory"])
            self._pids = _open(folders["pids"], files["pids"])
            self._oom: int = os.open(os.path.join(folders["memory"], files["oom"]), os.O_RDONLY | os.O_CLOEXEC)
            swap = os.path.join(folders["memory"], files["swap"])
            self._swap: Optional[int] = _open(folders["memory"], files["swap"]) if os.path.exists(swap) else None
        except OSError as error:
            raise LayerError("cgroup", "cannot make a control group: %s" % error) from error

    def descriptors(self) -> List[int]:
        return [fd for fd in (self._memory, self._pids, self._oom, self._swap, *self._tasks) if fd is not None]

    def handle(self) -> Optional[int]:
        """Version 2: a descriptor of the folder to clone into. Version 1: None, as the process enters by itself."""
        return os.open(self._folders["memory"], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) if self._version == 2 else None

    def enter(self) -> None:
        """Version 1: moves the calling process, which must have one thread. Moving another process takes 100 times as long."""
        if self._version == 2:
            return
        try:
            for fd in self._tasks:
                os.write(fd, b"0")
                os.close(fd)
        except OSError as error:
            raise LayerError("cgroup", "cannot enter the control group: %s" % error) from error
        self._tasks = []

    def limit(self, memory_bytes: int, processes: int) -> None:
        """Sets the limits and closes the files that could change them."""
        try:
            os.write(self._memory, b"%d" % memory_bytes)
            if self._swap is not None:
                os.write(self._swap, b"%d" % (memory_bytes if self._version == 1 else 0))
                os.close(self._swap)
            os.write(self._pids, b"%d" % processes)
        except OSError as error:
            raise LayerError("cgroup", "cannot set limits: %s" % error) from error
        os.close(self._memory)
        os.close(self._pids)

    def oom_kills(self) -> int:
        return _oom_kills(self._oom)

    def remove(self) -> None:
        for folder in set(self._folders.values()):
            try:
                os.rmdir(folder)
            except OSError:
                pass  # a process is still ending; the next template removes the folder


class OwnGroup:
    """The control group in which a container engine runs this process. It can only be read."""

    def __init__(self, version: int, folder: str) -> None:
        self._oom = os.open(os.path.join(folder, _FILES[version]["oom"]), os.O_RDONLY | os.O_CLOEXEC)

    @classmethod
    def limiting(cls, memory_bytes: int) -> Optional["OwnGroup"]:
        """The group that limits this process to this much memory, or None: some engines cannot set limits."""
        for version, folder in _own_folders():
            try:
                with open(os.path.join(folder, _FILES[version]["memory"]), encoding="ascii") as file:
                    most = file.read().strip()
                if most.isdigit() and int(most) <= memory_bytes + SUPERVISOR_MEMORY_BYTES:
                    return cls(version, folder)
            except OSError:
                continue  # another version, or not visible in this container
        return None

    def oom_kills(self) -> int:
        return _oom_kills(self._oom)


class Groups:
    """The place where this process can create control groups. `find` returns it, or raises LayerError."""

    def __init__(self, version: int, parents: Dict[str, str], make_room: bool = False) -> None:
        self.version = version
        self.has_shares = False
        self._own = {name: os.path.join(path, "cella-%d" % os.getpid()) for name, path in parents.items()}
        self._count = 0
        _sweep(set(parents.values()))
        try:
            for folder in set(self._own.values()):
                # An earlier process with the same pid may have left it.
                _remove_tree(folder)
                os.mkdir(folder, 0o755)
            if version == 1:
                self.has_shares = "cpu" in parents
                return
            for parent in set(parents.values()):
                if make_room:
                    _make_room(parent)
            for folder in set(self._own.values()):
                self.has_shares = _enable(folder)
        except OSError:
            self.remove()
            raise

    def make(self) -> Group:
        self._count += 1
        return Group(self.version, {name: os.path.join(path, str(self._count)) for name, path in self._own.items()})

    def remove(self) -> None:
        for folder in set(self._own.values()):
            _remove_tree(folder)


def find() -> Groups:
    mounts = _mounts()
    problems = []
    for version in (1, 2):
        for parents, make_room in _candidates(version, mounts):
            try:
                groups = Groups(version, parents, make_room)
                try:
                    _try(groups)
                    return groups
                except LayerError as error:
                    groups.remove()
                    problems.append(error.message)
            except OSError as error:
                problems.append(str(error))
    raise LayerError("cgroup", problems[0] if problems else "no control group with memory and pids is mounted")


def versions() -> List[int]:
    """The mounted versions, whether or not this process may use them."""
    return sorted({2 if kind == "cgroup2" else 1 for kind, _, _ in _mounts()})


def sweep() -> None:
    """Removes the groups of dead processes from all places where `find` looks."""
    mounts = _mounts()
    for version in (1, 2):
        for parents, _ in _candidates(version, mounts):
            _sweep(set(parents.values()))


def _oom_kills(file: int) -> int:
    for line in os.pread(file, 4096, 0).split(b"\n"):
        word, _, count = line.partition(b" ")
        if word == b"oom_kill":
            return int(count)
    return 0


def _try(groups: Groups) -> None:
    """Puts a real process into a group, as permissions alone do not show whether that works."""
    group = groups.make()
    handle = group.handle()
    pid = clone(0, handle)
    if pid == 0:
        try:
            group.enter()
            group.limit(1 << 30, 100)
            group.oom_kills()
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    for fd in (*group.descriptors(), *([] if handle is None else [handle])):
        os.close(fd)
    group.remove()
    if status != 0:
        raise LayerError("cgroup", "a process could not enter its control group")


def _mounts() -> List[Tuple[str, str, str]]:
    """(kind, options, folder) of every mounted hierarchy."""
    found = []
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            left, _, right = line.partition(" - ")
            kind, _, options = right.split(" ", 2)
            if kind in ("cgroup", "cgroup2"):
                found.append((kind, options.strip(), left.split(" ")[4]))
    return found


def _candidates(version: int, mounts: List[Tuple[str, str, str]]) -> List[Tuple[Dict[str, str], bool]]:
    """Where to try, best first: the group for each controller, and whether its processes have to make room."""
    own = _own_paths()
    if version == 2:
        folders = [folder for kind, _, folder in mounts if kind == "cgroup2"]
        if not folders:
            return []
        path = own.get("", "/")
        steps = [path]
        while path not in ("/", ""):
            path = os.path.dirname(path)
            steps.append(path)
        places = [folders[0] + step.rstrip("/") for step in steps]
        tries = [(place, False) for place in places]
        # A group that systemd has delegated comes first: its limits are meant for the sandboxes too.
        if _is_delegated(places[0]):
            tries.insert(0, (places[0], True))
        elif _belongs_to_us(places[0], at_top=own.get("", "/") == "/"):
            tries.append((places[0], True))
        return [({"memory": place, "pids": place}, make_room) for place, make_room in tries if _controls(place)]
    parents = {}
    for controller in ("memory", "pids", "cpu"):
        for kind, options, folder in mounts:
            if kind == "cgroup" and controller in options.split(","):
                place = folder + own.get(controller, "/").rstrip("/")
                parents[controller] = place if os.path.isdir(place) else folder
    if not {"memory", "pids"} <= set(parents):
        return []
    # Without a CPU share, a sandbox still has its limits.
    without = {name: parents[name] for name in ("memory", "pids")}
    return [(parents, False), (without, False)] if "cpu" in parents else [(without, False)]


def _own_folders() -> Iterator[Tuple[int, str]]:
    """Possible versions and folders of this process's group. An engine may show only this group, or all of the machine's."""
    own = _own_paths()
    for version, root, controller in ((2, "/sys/fs/cgroup", ""), (1, "/sys/fs/cgroup/memory", "memory")):
        yield version, root + own.get(controller, "/").rstrip("/")
        yield version, root


def _own_paths() -> Dict[str, str]:
    paths = {}
    with open("/proc/self/cgroup", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            _, names, path = line.rstrip("\n").split(":", 2)
            for name in names.split(","):
                paths[name] = path
    return paths


def _controls(folder: str) -> bool:
    try:
        with open(os.path.join(folder, "cgroup.controllers"), encoding="ascii") as file:
            return _NEEDED <= set(file.read().split())
    except OSError:
        return False


def _is_delegated(folder: str) -> bool:
    """Whether systemd has been told Delegate=yes."""
    for name in ("user.delegate", "trusted.delegate"):
        try:
            if os.getxattr(folder, name) == b"1":
                return True
        except OSError:
            continue  # not set, or not for this user
    return False


def _belongs_to_us(folder: str, at_top: bool) -> bool:
    """`at_top`: of the tree as this process sees it, which is a container's own group or the machine's."""
    try:
        if os.geteuid() != 0:
            return os.stat(folder).st_uid == os.geteuid()
        # Only the machine's own root has no type.
        return at_top and os.path.exists(os.path.join(folder, "cgroup.type"))
    except OSError:
        return False


def _make_room(folder: str) -> None:
    """Version 2 has processes or controlled groups in a group, not both: moves all processes into a group below it."""
    server = os.path.join(folder, _SERVER)
    try:
        os.mkdir(server, 0o755)
    except FileExistsError:
        pass  # another template was here
    # A process that is moved may have started another meanwhile.
    for _ in range(100):
        with open(os.path.join(folder, "cgroup.procs"), encoding="ascii") as file:
            pids = file.read().split()
        if not pids:
            return
        if "0" in pids:
            break  # of another PID namespace: nobody can move it from here
        for pid in pids:
            try:
                with open(os.path.join(server, "cgroup.procs"), "w", encoding="ascii") as file:
                    file.write(pid)
            except ProcessLookupError:
                pass  # it has ended
    raise OSError(errno.EBUSY, "processes that cannot be moved are in", folder)


def _enable(folder: str) -> bool:
    """Has the controllers for the groups in `folder`, and says whether there is one for processors."""
    shares = True
    for place in (os.path.dirname(folder), folder):
        path = os.path.join(place, "cgroup.subtree_control")
        with open(path, encoding="ascii") as file:
            have = set(file.read().split())
        if not _NEEDED <= have:
            with open(path, "w", encoding="ascii") as file:
                file.write(" ".join("+" + name for name in sorted(_NEEDED)))
        if "cpu" not in have:
            try:
                with open(path, "w", encoding="ascii") as file:
                    file.write("+cpu")
            except OSError:
                shares = False  # not delegated: the limits hold without it
    return shares


def _sweep(parents: "set[str]") -> None:
    """Removes the groups of templates that were killed."""
    for parent in parents:
        try:
            names = os.listdir(parent)
        except OSError:
            continue  # not readable, so Cella has created nothing there
        for name in names:
            prefix, _, pid = name.partition("-")
            if prefix == "cella" and pid.isdigit() and not os.path.exists("/proc/" + pid):
                _remove_tree(os.path.join(parent, name))


def _remove_tree(folder: str) -> None:
    try:
        for entry in os.scandir(folder):
            if entry.is_dir(follow_symlinks=False):
                os.rmdir(entry.path)
        os.rmdir(folder)
    except OSError:
        pass  # still in use, or another template is removing it


def _open(folder: str, name: str) -> int:
    return os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CLOEXEC)
