"""Control groups, version 1 and 2: the limits of a sandbox as a whole, and whether a process was killed for memory.

If there is a controller for CPU time, each sandbox has one share, however many processes and sessions it starts, and all
sandboxes together have no more than the server. A sandbox that computes for long gives way to the others.
"""

from __future__ import annotations

import errno
import os
import time
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
        self.folders = folders
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
        return os.open(self.folders["memory"], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) if self._version == 2 else None

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
        for folder in set(self.folders.values()):
            try:
                os.rmdir(folder)
            except OSError:
                pass  # a process is still ending; the next template removes the folder


# A sandbox that takes more than this part of a processor gives way to the others. If many compute: more than half of an equal part.
_GIVES_WAY_ABOVE = 0.2
# It no longer gives way when it takes less than this part of that.
_STOPS_BELOW = 0.25
_SAMPLE_S = 0.25
# While all sandboxes together take little.
_REST_S = 1.0
_PROCESSORS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


class Precedence:
    """In the template: which sandboxes give way to the others, because they compute for long.

    Groups with equal shares get equal time, but one that sleeps most of the time may wait for a tenth of a second until
    another that computes makes room. A group with `cpu.idle` makes room at once. If no other sandbox wants a processor, it is as
    fast, and all such groups share what is left equally. Towards the server and other programs nothing changes: `cpu.idle` compares
    only the groups of one parent.
    """

    def __init__(self, version: int, own: Dict[str, str]) -> None:
        self._version = version
        self._total = _CpuTime(_time_file(version, own))
        self._sandboxes: Dict[Group, _CpuTime] = {}
        self._due = 0.0

    @staticmethod
    def supported(version: int, own: Dict[str, str]) -> bool:
        """From Linux 5.15 on."""
        return (version == 2 or "cpuacct" in own) and os.path.exists(_idle_file(version, own))

    def add(self, group: Group) -> None:
        try:
            self._sandboxes[group] = _CpuTime(_time_file(self._version, group.folders))
        except OSError:
            pass  # no file is free: it has its share, and never gives way

    def remove(self, group: Group) -> None:
        sandbox = self._sandboxes.pop(group, None)
        if sandbox is not None:
            sandbox.close()

    def pause_s(self) -> Optional[float]:
        """How long until `update`."""
        return max(0.0, self._due - time.monotonic()) if self._sandboxes else None

    def update(self) -> None:
        """Call it often: it does something when its time has come."""
        now = time.monotonic()
        if not self._sandboxes or now < self._due:
            return
        gives_way = [sandbox for sandbox in self._sandboxes.values() if sandbox.gives_way]
        if self._total.sample(now) < _GIVES_WAY_ABOVE / 4 and not gives_way:
            self._due = now + _REST_S
            return
        self._due = now + _SAMPLE_S
        parts = {group: sandbox.sample(now) for group, sandbox in self._sandboxes.items()}
        active = sum(part > 0.01 for part in parts.values())
        above = min(_GIVES_WAY_ABOVE, _PROCESSORS / 2 / max(1, active))
        for group, sandbox in self._sandboxes.items():
            wanted = parts[group] > (above * _STOPS_BELOW if sandbox.gives_way else above)
            if wanted != sandbox.gives_way:
                sandbox.gives_way = wanted
                self._set(group, wanted)

    def _set(self, group: Group, gives_way: bool) -> None:
        try:
            with open(_idle_file(self._version, group.folders), "w", encoding="ascii") as file:
                file.write("1" if gives_way else "0")
        except OSError:
            pass  # the sandbox has ended


def _time_file(version: int, folders: Dict[str, str]) -> str:
    return os.path.join(folders["cpuacct"], "cpuacct.usage") if version == 1 else os.path.join(folders["memory"], "cpu.stat")


def _idle_file(version: int, folders: Dict[str, str]) -> str:
    return os.path.join(folders["cpu" if version == 1 else "memory"], "cpu.idle")


class _CpuTime:
    """The processor time of a group."""

    __slots__ = ("_fd", "_at", "_seconds", "_part", "gives_way")

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self._at = time.monotonic()
        self._seconds = self._read()
        self._part = 0.0
        self.gives_way = False

    def sample(self, now: float) -> float:
        """The part of one processor that it takes. What is further back counts less."""
        try:
            seconds = self._read()
        except OSError:
            return 0.0  # somebody has removed the group, which has no processes
        passed = max(now - self._at, 1e-3)
        newest = (seconds - self._seconds) / passed
        weight = min(1.0, passed / (2 * _SAMPLE_S))
        self._part += (newest - self._part) * weight
        self._at, self._seconds = now, seconds
        return self._part

    def close(self) -> None:
        os.close(self._fd)

    def _read(self) -> float:
        first = os.pread(self._fd, 64, 0).split(b"\n")[0]
        # Version 1 has nanoseconds, version 2 microseconds after a word.
        word, _, count = first.rpartition(b" ")
        return int(count) / (1e6 if word else 1e9)


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
        self.precedence: Optional[Precedence] = None
        _sweep(set(parents.values()))
        try:
            for folder in set(self._own.values()):
                # An earlier process with the same pid may have left it.
                _remove_tree(folder)
                os.mkdir(folder, 0o755)
            if version == 1:
                self.has_shares = "cpu" in parents
            else:
                for parent in set(parents.values()):
                    if make_room:
                        _make_room(parent)
                for folder in set(self._own.values()):
                    self.has_shares = _enable(folder)
            if self.has_shares and Precedence.supported(version, self._own):
                self.precedence = Precedence(version, self._own)
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
    for controller in ("memory", "pids", "cpu", "cpuacct"):
        for kind, options, folder in mounts:
            if kind == "cgroup" and controller in options.split(","):
                place = folder + own.get(controller, "/").rstrip("/")
                parents[controller] = place if os.path.isdir(place) else folder
    if not {"memory", "pids"} <= set(parents):
        return []
    # Without a CPU share, a sandbox still has its limits.
    tries = (parents, {name: path for name, path in parents.items() if name != "cpuacct"}, {name: parents[name] for name in ("memory", "pids")})
    return [(places, False) for places in tries]


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
