"""Puts processes under the policy.

A sandbox is made in steps: `start` and `begin` are the same for every session, `bring_in` opens what one session may
see, `retire` gives up all rights but that, and each kernel closes itself in with a `Confinement`.
"""

from __future__ import annotations

import os
import socket
from typing import Any, Dict, Iterable, List, Optional

from . import cgroup, landlock, limits, linux, mounts, networks, seccomp
from .linux import NEWIPC, NEWNET, NEWNS, NEWPID, NEWUSER, NEWUTS, LayerError
from .mounts import Stage

_WRITABLE = ("/tmp", "/dev/shm", "/dev/pts", "/dev/null", "/dev/zero", "/dev/full", "/dev/ptmx", "/dev/tty")
_READABLE = ("/etc", "/proc", "/.own", "/dev")


class Surroundings:
    """What a sandbox is put into, beside its namespaces."""

    def __init__(self, network: str, group: Optional[cgroup.Group]) -> None:
        self.network = network
        self.group = group
        # A network that was made ahead.
        self.ready_network: Optional[int] = None

    def descriptors(self) -> List[int]:
        ready = [] if self.ready_network is None else [self.ready_network]
        return [*ready, *(self.group.descriptors() if self.group else ())]

    def close(self) -> None:
        """The template's side: the sandbox has its own copies of the descriptors."""
        for fd in self.descriptors():
            os.close(fd)

    def remove(self) -> None:
        if self.group is not None:
            self.group.remove()


class Confinement:
    """What each process that pid 1 forks is left with: inherited limits, and the files of the rules where there are any."""

    def __init__(self, rules: Optional[landlock.Ruleset], killed_first: bool = False) -> None:
        self._rules = rules
        self._killed_first = killed_first

    def descriptors(self) -> List[int]:
        return [self._rules.fd] if self._rules else []

    def enter(self, spec: Dict[str, Any]) -> None:
        """Leaves this process nothing but the policy's files. No user code has run before this returns."""
        if self._rules is not None:
            self._rules.restrict()
        limits.limit_open_files(spec["limits"]["openFiles"])
        linux.set_dumpable(True)
        if self._killed_first:
            limits.be_killed_first()


class Launcher:
    """The template's side: what can be made once, before the first sandbox."""

    def __init__(self, folder: str, packages: Iterable[str], need_cgroup: bool) -> None:
        if not linux.supported():
            raise LayerError("namespaces", "Linux on x86_64 or aarch64 is needed; this is %s" % linux.MACHINE)
        self.root = os.geteuid() == 0
        self.filter = seccomp.program()
        self.groups: Optional[cgroup.Groups] = None
        self.networks: Optional[networks.Networks] = None
        try:
            self.groups = cgroup.find()
        except LayerError:
            # Without control groups the limits hold for each process, not for all of them together.
            if need_cgroup:
                raise
        if self.root:
            # Once for all: whatever is forked from here has none either.
            linux.drop_bounding_set()
            linux.unshare(NEWNS)
        else:
            enter_user_namespace(NEWUSER | NEWNS)
        self.stage = Stage(folder)
        self.stage.build(packages)

    def start(self, network: str) -> "tuple[int, Surroundings]":
        """fork() into new namespaces. Returns 0 in the child, which must call `begin`, and its pid here."""
        around = Surroundings(network, self.groups.make() if self.groups else None)
        if network != "host" and self.networks is not None:
            around.ready_network = self.networks.take()
        own_network = network != "host" and around.ready_network is None
        flags = NEWNS | NEWPID | NEWIPC | NEWUTS | (NEWNET if own_network else 0)
        handle = around.group.handle() if around.group else None
        try:
            return linux.clone(flags, handle), around
        except LayerError:
            around.close()
            around.remove()
            raise
        finally:
            if handle is not None:
                os.close(handle)

    def begin(self, around: Surroundings) -> None:
        """What is the same for every session: control group, network, host name, the shared part of the file tree."""
        linux.die_with_parent()
        if around.group:
            around.group.enter()
        if around.ready_network is not None:
            linux.enter_namespace(around.ready_network, NEWNET)
            os.close(around.ready_network)
        elif around.network != "host":
            networks.loopback_up()
        try:
            socket.sethostname("cella")
        except OSError as error:
            raise LayerError("namespaces", "sethostname: %s" % error) from error
        self.stage.begin(around.network)

    def bring_in(self, spec: Dict[str, Any], group: Optional[cgroup.Group], folders: List[int]) -> None:
        """What is this session's own: limits of the whole sandbox, and its folders as the template has opened them."""
        if group:
            group.limit(spec["limits"]["memoryBytes"], spec["limits"]["processes"])
        self.stage.finish(spec, folders)

    def remove(self) -> None:
        """Leaves nothing of this template behind."""
        if self.groups is not None:
            self.groups.remove()
        self.stage.remove()

    def confinement(self, spec: Dict[str, Any]) -> Confinement:
        """What Landlock will leave each kernel: made once, after the folders are there."""
        rules = landlock.Ruleset()
        rules.allow_listing("/")
        for path in (*self.stage.paths, *_READABLE, *(mounts.mount_point(folder) for folder in spec["readable"])):
            rules.allow_reading(path)
        for path in (*_WRITABLE, *(mounts.mount_point(folder) for folder in spec["writable"])):
            rules.allow_writing(path)
        return Confinement(rules)

    def retire(self, spec: Dict[str, Any]) -> None:
        """Gives up every right that goes with the user, and lowers the limits, for good.

        Pid 1, which runs no user code, keeps what it needs to signal kernels and to fork others; they inherit this.
        """
        if self.root:
            _become(spec["uid"], spec["gid"])
        else:
            # A namespace of its own makes the process limit count this sandbox alone.
            enter_user_namespace(NEWUSER)
            linux.drop_bounding_set()
            linux.drop_capabilities()
        linux.die_with_parent()
        settle(spec["limits"], self.groups is None, self.filter)


def settle(most: Dict[str, Any], alone: bool, filter_program: bytes) -> None:
    """Lowers the limits of this process and closes it to others of its user, and forbids system calls that no code needs."""
    limits.apply(most, alone)
    linux.set_dumpable(False)
    linux.no_new_privileges()
    linux.install_filter(filter_program)


def enter_user_namespace(flags: int) -> None:
    """A namespace in which this process keeps its own uid and gid, and every other id is nobody."""
    uid, gid = os.geteuid(), os.getegid()
    linux.unshare(flags, "userns")
    lines = (("setgroups", "deny"), ("uid_map", "%d %d 1" % (uid, uid)), ("gid_map", "%d %d 1" % (gid, gid)))
    try:
        for name, text in lines:
            with open("/proc/self/" + name, "w", encoding="ascii") as file:
                file.write(text)
    except OSError as error:
        raise LayerError("userns", "cannot map the user into its namespace: %s" % error) from error


def _become(uid: int, gid: int) -> None:
    try:
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    except OSError as error:
        raise LayerError("uid", "cannot become uid %d: %s" % (uid, error)) from error
    if os.getresuid() != (uid, uid, uid) or os.getresgid() != (gid, gid, gid):
        raise LayerError("uid", "the process kept its old uid")
    linux.drop_capabilities()
