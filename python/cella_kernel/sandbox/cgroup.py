"""
Control groups, version 1 and 2: what a whole sandbox may use together, and whether it was killed for memory.

Where there is a controller for processors, each sandbox has one share of them, however many processes and sessions it
starts, and all sandboxes together have no more than the server.
"""

from __future__ import annotations

import os
from typing import Dict, Iterator, List, Optional, Tuple

from ..protocol import SUPERVISOR_MEMORY_BYTES
from .linux import LayerError, clone

# What each version calls the same thing.
_FILES = {
    1: {"memory": "memory.limit_in_bytes", "pids": "pids.max", "oom": "memory.oom_control", "swap": "memory.memsw.limit_in_bytes"},
    2: {"memory": "memory.max", "pids": "pids.max", "oom": "memory.events", "swap": "memory.swap.max"},
}


class Group:
    """The control groups of one sandbox. The files stay open, so that they work after the host's tree is gone."""

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
        """Version 2: the folder to clone into. Version 1 has no such thing; there the process enters by itself."""
        return os.open(self._folders["memory"], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) if self._version == 2 else None

    def enter(self) -> None:
        """Moves the calling process, which must have one thread. Moving oneself takes 0.1 ms; being moved takes 10 or more."""
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
                pass  # a process is still leaving; the next template sweeps it


class OwnGroup:
    """The control group that a container engine has put this process into: it can only be read."""

    def __init__(self, version: int, folder: str) -> None:
        self._oom = os.open(os.path.join(folder, _FILES[version]["oom"]), os.O_RDONLY | os.O_CLOEXEC)

    @classmethod
    def limiting(cls, memory_bytes: int) -> Optional["OwnGroup"]:
        """None where there is none that keeps this process to about so much: an engine may not be able to."""
        for version, folder in _own_folders():
            try:
                with open(os.path.join(folder, _FILES[version]["memory"]), encoding="ascii") as file:
                    most = file.read().strip()
                if most.isdigit() and int(most) <= memory_bytes + SUPERVISOR_MEMORY_BYTES:
                    return cls(version, folder)
            except OSError:
                continue  # of the other version, or not shown in here
        return None

    def oom_kills(self) -> int:
        return _oom_kills(self._oom)


class Groups:
    """Where this process may make control groups; `find` raises LayerError where it may not."""

    def __init__(self, version: int, parents: Dict[str, str]) -> None:
        self.version = version
        self._own = {name: os.path.join(path, "cella-%d" % os.getpid()) for name, path in parents.items()}
        self._count = 0
        _sweep(set(parents.values()))
        try:
            for folder in set(self._own.values()):
                # One that was killed may have had the same pid.
                _remove_tree(folder)
                os.mkdir(folder, 0o755)
            if version == 2:
                for folder in set(self._own.values()):
                    _enable(folder)
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
        for parents in _candidates(version, mounts):
            try:
                groups = Groups(version, parents)
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
    """Which versions are mounted, whether or not this process may use them."""
    return sorted({2 if kind == "cgroup2" else 1 for kind, _, _ in _mounts()})


def sweep() -> None:
    """Removes what processes that are gone have left behind, in every place where `find` looks."""
    mounts = _mounts()
    for version in (1, 2):
        for parents in _candidates(version, mounts):
            _sweep(set(parents.values()))


def _oom_kills(file: int) -> int:
    for line in os.pread(file, 4096, 0).split(b"\n"):
        word, _, count = line.partition(b" ")
        if word == b"oom_kill":
            return int(count)
    return 0


def _try(groups: Groups) -> None:
    """Puts a real process into a group: permissions alone do not tell."""
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


def _candidates(version: int, mounts: List[Tuple[str, str, str]]) -> List[Dict[str, str]]:
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
        return [{"memory": place, "pids": place} for place in places if _controls(place)]
    parents = {}
    for controller in ("memory", "pids", "cpu"):
        for kind, options, folder in mounts:
            if kind == "cgroup" and controller in options.split(","):
                place = folder + own.get(controller, "/").rstrip("/")
                parents[controller] = place if os.path.isdir(place) else folder
    if not {"memory", "pids"} <= set(parents):
        return []
    # Without a share of the processors of its own a sandbox still has its limits.
    without = {name: parents[name] for name in ("memory", "pids")}
    return [parents, without] if "cpu" in parents else [without]


def _own_folders() -> Iterator[Tuple[int, str]]:
    """Version and folder of the group of this process. An engine may show only this group, or all of the machine's."""
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
            return {"memory", "pids"} <= set(file.read().split())
    except OSError:
        return False


def _enable(folder: str) -> None:
    for place in (os.path.dirname(folder), folder):
        path = os.path.join(place, "cgroup.subtree_control")
        with open(path, encoding="ascii") as file:
            have = set(file.read().split())
        if not {"memory", "pids"} <= have:
            with open(path, "w", encoding="ascii") as file:
                file.write("+memory +pids")
        if "cpu" not in have:
            try:
                with open(path, "w", encoding="ascii") as file:
                    file.write("+cpu")
            except OSError:
                pass  # not delegated: the limits hold without it


def _sweep(parents: "set[str]") -> None:
    """Removes what templates that were killed have left behind."""
    for parent in parents:
        try:
            names = os.listdir(parent)
        except OSError:
            continue  # not ours to read, so nothing of ours is there
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
        pass  # still in use, or removed by another template at this moment


def _open(folder: str, name: str) -> int:
    return os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CLOEXEC)
