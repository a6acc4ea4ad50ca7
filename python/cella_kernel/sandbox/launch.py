"""Starts sandboxes and applies their policy.

A sandbox is set up in steps: `start` and `enter_sandbox` are the same for all sessions, `apply_spec` sets the limits and
folders of one session, `drop_privileges` gives up all other rights, and each kernel enters a `Confinement`.
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


class SandboxResources:
    """The network and the control group of a sandbox."""

    def __init__(self, network: str, group: Optional[cgroup.Group]) -> None:
        self.network = network
        self.group = group
        # A network that was created ahead.
        self.ready_network: Optional[int] = None

    def descriptors(self) -> List[int]:
        ready = [] if self.ready_network is None else [self.ready_network]
        return [*ready, *(self.group.descriptors() if self.group else ())]

    def close(self) -> None:
        """In the template: closes its descriptors. The sandbox has copies."""
        for fd in self.descriptors():
            os.close(fd)

    def remove(self) -> None:
        if self.group is not None:
            self.group.remove()


class Confinement:
    """How each process that pid 1 forks is confined, in addition to the limits that it inherits."""

    def __init__(self, rules: Optional[landlock.Ruleset], killed_first: bool = False) -> None:
        self._rules = rules
        self._killed_first = killed_first

    def descriptors(self) -> List[int]:
        return [self._rules.fd] if self._rules else []

    def enter(self, spec: Dict[str, Any]) -> None:
        """Restricts this process to the files of the policy. No user code runs before this returns."""
        if self._rules is not None:
            self._rules.restrict()
        limits.limit_open_files(spec["limits"]["openFiles"])
        linux.set_dumpable(True)
        if self._killed_first:
            limits.prefer_for_oom_kill()


class Launcher:
    """In the template: what all sandboxes share, created once before the first."""

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
            # Without control groups, the limits apply to each process, and not to all of them together.
            if need_cgroup:
                raise
        if self.root:
            # Once, as all forks inherit it.
            linux.drop_bounding_set()
            linux.unshare(NEWNS)
        else:
            enter_user_namespace(NEWUSER | NEWNS)
        self.stage = Stage(folder)
        self.stage.build(packages)

    def start(self, network: str) -> "tuple[int, SandboxResources]":
        """Forks into new namespaces. Returns 0 in the child, which must call `enter_sandbox`, and its pid here."""
        resources = SandboxResources(network, self.groups.make() if self.groups else None)
        if network != "host" and self.networks is not None:
            resources.ready_network = self.networks.take()
        own_network = network != "host" and resources.ready_network is None
        flags = NEWNS | NEWPID | NEWIPC | NEWUTS | (NEWNET if own_network else 0)
        handle = resources.group.handle() if resources.group else None
        try:
            return linux.clone(flags, handle), resources
        except LayerError:
            resources.close()
            resources.remove()
            raise
        finally:
            if handle is not None:
                os.close(handle)

    def enter_sandbox(self, resources: SandboxResources) -> None:
        """The part that is the same for all sessions: control group, network, host name, shared part of the file tree."""
        linux.die_with_parent()
        if resources.group:
            resources.group.enter()
        if resources.ready_network is not None:
            linux.enter_namespace(resources.ready_network, NEWNET)
            os.close(resources.ready_network)
        elif resources.network != "host":
            networks.loopback_up()
        try:
            socket.sethostname("cella")
        except OSError as error:
            raise LayerError("namespaces", "sethostname: %s" % error) from error
        self.stage.enter(resources.network)

    def apply_spec(self, spec: Dict[str, Any], group: Optional[cgroup.Group], folders: List[int]) -> None:
        """The part of one session: the limits of the sandbox, and the folders that the template has opened."""
        if group:
            group.limit(spec["limits"]["memoryBytes"], spec["limits"]["processes"])
        self.stage.finish(spec, folders)

    def remove(self) -> None:
        """Removes the control groups and mounts of this template."""
        if self.groups is not None:
            self.groups.remove()
        self.stage.remove()

    def confinement(self, spec: Dict[str, Any]) -> Confinement:
        """The Landlock rules for all kernels. Call it once, when the folders are mounted."""
        rules = landlock.Ruleset()
        rules.allow_listing("/")
        for path in (*self.stage.paths, *_READABLE, *(mounts.mount_point(folder) for folder in spec["readable"])):
            rules.allow_reading(path)
        for path in (*_WRITABLE, *(mounts.mount_point(folder) for folder in spec["writable"])):
            rules.allow_writing(path)
        return Confinement(rules)

    def drop_privileges(self, spec: Dict[str, Any]) -> None:
        """Changes the user, gives up all capabilities and lowers the limits, permanently. Kernels inherit all of this.

        Pid 1, which runs no user code, can still signal kernels and fork new ones.
        """
        if self.root:
            become_user(spec["uid"], spec["gid"])
        else:
            # With its own user namespace, the process limit counts only this sandbox.
            enter_user_namespace(NEWUSER)
            linux.drop_bounding_set()
            linux.drop_capabilities()
        linux.die_with_parent()
        settle(spec["limits"], self.groups is None, self.filter)


def settle(most: Dict[str, Any], alone: bool, filter_program: bytes) -> None:
    """Lowers the limits of this process, hides it from other processes of its user, and installs the system call filter."""
    limits.apply(most, alone)
    linux.set_dumpable(False)
    linux.no_new_privileges()
    linux.install_filter(filter_program)


def enter_user_namespace(flags: int) -> None:
    """Enters a user namespace in which this process keeps its uid and gid, and all other ids are nobody."""
    uid, gid = os.geteuid(), os.getegid()
    linux.unshare(flags, "userns")
    lines = (("setgroups", "deny"), ("uid_map", "%d %d 1" % (uid, uid)), ("gid_map", "%d %d 1" % (gid, gid)))
    try:
        for name, text in lines:
            with open("/proc/self/" + name, "w", encoding="ascii") as file:
                file.write(text)
    except OSError as error:
        raise LayerError("userns", "cannot map the user into its namespace: %s" % error) from error


def become_user(uid: int, gid: int) -> None:
    """Switches from root to this user, permanently."""
    try:
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    except OSError as error:
        raise LayerError("uid", "cannot become uid %d: %s" % (uid, error)) from error
    if os.getresuid() != (uid, uid, uid) or os.getresgid() != (gid, gid, gid):
        raise LayerError("uid", "the process kept its old uid")
    linux.drop_capabilities()
