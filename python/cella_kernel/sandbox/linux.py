"""Linux system calls that the standard library lacks. They raise LayerError if they fail."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from typing import Optional

MACHINE = platform.machine()

# Numbers that are the same on every architecture since Linux 5.
_COMMON = {
    "open_tree": 428,
    "move_mount": 429,
    "close_range": 436,
    "openat2": 437,
    "mount_setattr": 442,
    "landlock_create_ruleset": 444,
    "landlock_add_rule": 445,
    "landlock_restrict_self": 446,
}
_BY_MACHINE = {
    "x86_64": {
        "clone": 56, "pivot_root": 155, "capset": 126, "sched_setattr": 314,
        "setgroups": 116, "setfsuid": 122, "setfsgid": 123, "getdents64": 217, "renameat2": 316,
    },
    "aarch64": {
        "clone": 220, "pivot_root": 41, "capset": 91, "sched_setattr": 274,
        "setgroups": 159, "setfsuid": 151, "setfsgid": 152, "getdents64": 61, "renameat2": 276,
    },
}

FILES = 0x00000400
NEWNS = 0x00020000
NEWUTS = 0x04000000
NEWIPC = 0x08000000
NEWUSER = 0x10000000
NEWPID = 0x20000000
NEWNET = 0x40000000

_SIGCHLD = 17
_CLONE_PARENT = 0x00008000
CLONE3 = 435
_CLONE_INTO_CGROUP = 0x200000000
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_SET_SECCOMP = 22
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47

libc = ctypes.CDLL(None, use_errno=True)
# Calls with the GIL held: after clone, the child must be the thread that holds it.
_libc_with_gil = ctypes.PyDLL(None, use_errno=True)


class LayerError(Exception):
    """A layer of isolation could not be set up. `layer` is its name in `cella doctor`."""

    def __init__(self, layer: str, message: str) -> None:
        super().__init__(message)
        self.layer = layer
        self.message = message


def supported() -> bool:
    return hasattr(libc, "prctl") and MACHINE in _BY_MACHINE


def check(result: int, layer: str, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise LayerError(layer, "%s: %s" % (what, os.strerror(code)))
    return result


def number(name: str) -> int:
    return _COMMON.get(name) or _BY_MACHINE[MACHINE][name]


def syscall(name: str, *args: object) -> int:
    return libc.syscall(ctypes.c_long(number(name)), *args)


def clone(flags: int, cgroup: Optional[int] = None) -> int:
    """fork() into new namespaces and, if its folder is given, a control group of version 2.

    The caller must have one thread, as Python's fork hooks do not run.
    """
    if cgroup is None:
        pid = _libc_with_gil.syscall(ctypes.c_long(number("clone")), ctypes.c_ulong(flags | _SIGCHLD), None, None, None, None)
    else:
        arguments = struct.pack("11Q", flags | _CLONE_INTO_CGROUP, 0, 0, 0, _SIGCHLD, 0, 0, 0, 0, 0, cgroup)
        pid = _libc_with_gil.syscall(ctypes.c_long(CLONE3), arguments, ctypes.c_size_t(len(arguments)))
    return check(pid, "namespaces", "clone into new namespaces")


def fork() -> int:
    """fork() without Python's fork hooks, which would write to some 200 shared pages.

    The caller must have one thread: then the hooks would only repair `random` and `threading`.
    """
    return check(_libc_with_gil.fork(), "namespaces", "fork")


def fork_sibling() -> int:
    """fork() whose child has the caller's parent, pid 1: code that waits for its children does not see it.

    The caller must have one thread, as the fork handlers of the C library do not run either.
    """
    pid = _libc_with_gil.syscall(ctypes.c_long(number("clone")), ctypes.c_ulong(_CLONE_PARENT | _SIGCHLD), None, None, None, None)
    return check(pid, "namespaces", "fork")


def unshare(flags: int, layer: str = "namespaces") -> None:
    check(libc.unshare(flags), layer, "unshare(0x%x)" % flags)


def enter_namespace(fd: int, kind: int) -> None:
    check(libc.setns(ctypes.c_int(fd), ctypes.c_int(kind)), "namespaces", "setns(0x%x)" % kind)


def close_from(first: int) -> None:
    """Closes `first` and every descriptor above it."""
    if supported() and syscall("close_range", ctypes.c_uint(first), ctypes.c_uint(0xFFFFFFFF), ctypes.c_uint(0)) == 0:
        return
    try:
        numbers = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        os.closerange(first, os.sysconf("SC_OPEN_MAX"))
        return
    # An engine may refuse close_range and allow a million descriptors, so only open ones are closed.
    for fd in numbers:
        if fd >= first:
            try:
                os.close(fd)
            except OSError:
                pass  # the descriptor with which the folder was listed


def prctl(option: int, *args: int) -> int:
    padded = [ctypes.c_ulong(arg) for arg in args] + [ctypes.c_ulong(0)] * (4 - len(args))
    return libc.prctl(ctypes.c_int(option), *padded)


def die_with_parent(signal_number: int = 9) -> None:
    check(prctl(_PR_SET_PDEATHSIG, signal_number), "namespaces", "prctl(PDEATHSIG)")


def set_dumpable(value: bool) -> None:
    """If a process is not dumpable, others with its uid cannot trace it or read its /proc/PID/mem and fd."""
    check(prctl(_PR_SET_DUMPABLE, int(value)), "namespaces", "prctl(DUMPABLE)")


def adopt_orphans() -> None:
    prctl(_PR_SET_CHILD_SUBREAPER, 1)


def no_new_privileges() -> None:
    check(prctl(_PR_SET_NO_NEW_PRIVS, 1), "seccomp", "prctl(NO_NEW_PRIVS)")


def install_filter(program: bytes) -> None:
    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]

    filter_program = Program(len(program) // 8, program)
    result = libc.prctl(
        ctypes.c_int(_PR_SET_SECCOMP), ctypes.c_ulong(2), ctypes.byref(filter_program), ctypes.c_ulong(0), ctypes.c_ulong(0)
    )
    check(result, "seccomp", "prctl(SECCOMP)")


def drop_bounding_set() -> None:
    """Keeps programs that this process runs from gaining capabilities."""
    for capability in range(41):
        # Fails for a capability that Linux does not know or that is already dropped. That is as good.
        prctl(_PR_CAPBSET_DROP, capability)


def drop_capabilities() -> None:
    """Empties the permitted, effective, inheritable and ambient sets of this process."""
    prctl(_PR_CAP_AMBIENT, 4)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    data = (ctypes.c_uint32 * 6)()
    check(syscall("capset", ctypes.byref(header), ctypes.byref(data)), "uid", "capset")


def request_time_slice(nanoseconds: int) -> None:
    """Requests time slices of this length: a process that requests short ones runs sooner. 0 requests the default.

    Linux before 6.12 ignores this. A process with another scheduling policy than the default keeps its policy.
    """
    try:
        usual = os.sched_getscheduler(0) == os.SCHED_OTHER
    except (AttributeError, OSError):
        return  # not Linux, or musl, which does not report the policy
    if usual and supported():
        nice = os.getpriority(os.PRIO_PROCESS, 0)
        attributes = struct.pack("IIQiIQQQ", 48, os.SCHED_OTHER, 0, nice, 0, nanoseconds, 0, 0)
        syscall("sched_setattr", 0, attributes, 0)
