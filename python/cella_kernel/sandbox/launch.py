"""Puts processes under the policy.

A sandbox is made in steps: `start` and `begin` are the same for every session, `bring_in` opens what one session may
see, `retire` gives up all rights but that, and each kernel closes itself in with `confine`.
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from typing import Any, Dict, Iterable, List, Optional

from . import cgroup, landlock, limits, linux, seccomp, trees
from .linux import NEWIPC, NEWNET, NEWNS, NEWPID, NEWUSER, NEWUTS, LayerError
from .mounts import Stage

_WRITABLE = ("/tmp", "/dev/shm", "/dev/pts", "/dev/null", "/dev/zero", "/dev/full", "/dev/ptmx")
_READABLE = ("/etc", "/proc", "/.own", "/dev")


class Launcher:
    """The template's side: what can be made once, before the first sandbox."""

    def __init__(self, folder: str, packages: Iterable[str], need_cgroup: bool) -> None:
        if not linux.supported():
            raise LayerError("namespaces", "Linux on x86_64 or aarch64 is needed; this is %s" % linux.MACHINE)
        self.root = os.geteuid() == 0
        self.filter = seccomp.program()
        self.groups: Optional[cgroup.Groups] = None
        try:
            self.groups = cgroup.find()
        except LayerError:
            # Without control groups the limits hold for each process, not for all of them together.
            if need_cgroup:
                raise
        if self.root:
            linux.unshare(NEWNS)
        else:
            enter_user_namespace(NEWUSER | NEWNS)
        self.stage = Stage(folder)
        self.stage.build(packages)

    def start(self, network: str) -> "tuple[int, Optional[cgroup.Group]]":
        """fork() into new namespaces. Returns (0, group) in the child, which must call `begin`, and (pid, group) here."""
        group = self.groups.make() if self.groups else None
        flags = NEWNS | NEWPID | NEWIPC | NEWUTS | (0 if network == "host" else NEWNET)
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
            _loopback_up()
        try:
            socket.sethostname("cella")
        except OSError as error:
            raise LayerError("namespaces", "sethostname: %s" % error) from error
        self.stage.begin(network)

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

    def rules(self, spec: Dict[str, Any]) -> landlock.Ruleset:
        """What Landlock will leave each kernel: made once, after the folders are there."""
        rules = landlock.Ruleset()
        rules.allow_listing("/")
        for path in (*self.stage.paths, *_READABLE, *(trees.place(folder) for folder in spec["readable"])):
            rules.allow_reading(path)
        for path in (*_WRITABLE, *(trees.place(folder) for folder in spec["writable"])):
            rules.allow_writing(path)
        return rules

    def retire(self, spec: Dict[str, Any]) -> None:
        """Gives up every right that goes with the user, and lowers the limits, for good.

        Pid 1, which runs nobody's code, is left what it needs to signal kernels and to fork others; they inherit this.
        """
        if self.root:
            linux.drop_bounding_set()
            _become(spec["uid"], spec["gid"])
        else:
            # A namespace of its own makes the process limit count this sandbox alone.
            enter_user_namespace(NEWUSER)
            linux.drop_bounding_set()
            linux.drop_capabilities()
        limits.apply(spec["limits"], alone=self.groups is None)
        linux.die_with_parent()
        linux.set_dumpable(False)
        linux.no_new_privileges()
        linux.install_filter(self.filter)


def confine(rules: landlock.Ruleset, spec: Dict[str, Any]) -> None:
    """Leaves a process that pid 1 has forked nothing but the policy's files. No user code has run before this returns."""
    rules.restrict()
    limits.limit_open_files(spec["limits"]["openFiles"])
    linux.set_dumpable(True)


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


def _loopback_up() -> None:
    request = struct.pack("16sh14x", b"lo", 0x1 | 0x40)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        try:
            fcntl.ioctl(handle, 0x8914, request)
        except OSError as error:
            raise LayerError("namespaces", "cannot bring up loopback: %s" % error) from error
