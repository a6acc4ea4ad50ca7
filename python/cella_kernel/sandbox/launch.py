"""Puts a process under the policy, in two steps: `begin` is the same for every session, `finish` makes it one's own."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from typing import Any, Dict, Iterable, Optional

from . import cgroup, landlock, limits, linux, seccomp
from .linux import NEWIPC, NEWNET, NEWNS, NEWPID, NEWUSER, NEWUTS, LayerError
from .mounts import Stage

_SCRATCH_WRITABLE = ("/tmp", "/dev/shm", "/dev/pts", "/dev/null", "/dev/zero", "/dev/full", "/dev/ptmx")
_SCRATCH_READABLE = ("/etc", "/proc", "/.own", "/dev")
# What every sandbox has of its own; the network is the policy's choice.
NAMESPACES = NEWNS | NEWPID | NEWIPC | NEWUTS


class Launcher:
    """The template's side: what can be made once, before the first sandbox."""

    def __init__(self, folder: str, packages: Iterable[str], need_cgroup: bool) -> None:
        if not linux.supported():
            raise LayerError("namespaces", "Linux on x86_64 or aarch64 is needed; this is %s" % linux.MACHINE)
        self.root = os.geteuid() == 0
        if landlock.abi() < 1:
            raise LayerError("landlock", "this kernel has no Landlock, or it is turned off")
        self.filter = seccomp.program()
        self.groups: Optional[cgroup.Groups] = None
        self.cgroup_problem = ""
        try:
            self.groups = cgroup.find()
        except LayerError as error:
            if need_cgroup:
                raise
            self.cgroup_problem = error.message
        own_mounts()
        self.stage = Stage(folder)
        self.stage.build(packages)

    def start(self, network: str) -> "tuple[int, Optional[cgroup.Group]]":
        """fork() into new namespaces. Returns (0, group) in the child, which must call `begin`, and (pid, group) here."""
        group = self.groups.make() if self.groups else None
        flags = NAMESPACES | (0 if network == "host" else NEWNET)
        handle = group.handle() if group else None
        try:
            pid = linux.clone(flags, handle)
        finally:
            if handle is not None:
                os.close(handle)
        return pid, group

    def begin(self, network: str, group: Optional[cgroup.Group]) -> None:
        """What is the same for every session: control group, network, host name, the shared part of the file tree."""
        linux.die_with_parent()
        if group:
            group.enter()
        if network != "host":
            loopback_up()
        name_host()
        self.stage.begin()

    def finish(self, spec: Dict[str, Any], group: Optional[cgroup.Group]) -> None:
        """Closes the sandbox around this process, for good. No user code has run before it."""
        if group:
            group.limit(spec["limits"]["memoryBytes"], spec["limits"]["processes"])
        self.stage.finish(spec)
        if self.root:
            become(spec["uid"], spec["gid"])
        else:
            # A namespace of its own makes the process limit count this sandbox alone.
            enter_user_namespace(NEWUSER)
            linux.drop_bounding_set()
            linux.drop_capabilities()
        limits.apply(spec["limits"])
        linux.die_with_parent()
        linux.set_dumpable(False)
        linux.no_new_privileges()
        writable = [folder["path"] for folder in spec["writable"]]
        readable = [*self.stage.paths, *(folder["path"] for folder in spec["readable"]), *_SCRATCH_READABLE]
        landlock.restrict(readable, [*writable, *_SCRATCH_WRITABLE])
        linux.install_filter(self.filter)


def own_mounts() -> None:
    """Mounts that this process makes from here on are seen by no other."""
    if os.geteuid() == 0:
        linux.unshare(NEWNS)
    else:
        enter_user_namespace(NEWUSER | NEWNS)


def enter_user_namespace(flags: int) -> None:
    """A namespace in which this process keeps its own uid and gid, and every other id is nobody."""
    uid, gid = os.geteuid(), os.getegid()
    linux.unshare(flags, "userns")
    try:
        for name, text in (("setgroups", "deny"), ("uid_map", "%d %d 1" % (uid, uid)), ("gid_map", "%d %d 1" % (gid, gid))):
            with open("/proc/self/" + name, "w", encoding="ascii") as file:
                file.write(text)
    except OSError as error:
        raise LayerError("userns", "cannot map the user into its namespace: %s" % error) from error


def become(uid: int, gid: int) -> None:
    try:
        linux.drop_bounding_set()
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    except OSError as error:
        raise LayerError("uid", "cannot become uid %d: %s" % (uid, error)) from error
    if os.getresuid() != (uid, uid, uid) or os.getresgid() != (gid, gid, gid):
        raise LayerError("uid", "the process kept its old uid")
    linux.drop_capabilities()


def name_host() -> None:
    try:
        socket.sethostname("cella")
    except OSError as error:
        raise LayerError("namespaces", "sethostname: %s" % error) from error


def loopback_up() -> None:
    request = struct.pack("16sh14x", b"lo", 0x1 | 0x40)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        try:
            fcntl.ioctl(handle, 0x8914, request)
        except OSError as error:
            raise LayerError("namespaces", "cannot bring up loopback: %s" % error) from error
