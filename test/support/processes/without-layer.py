"""Runs a command on a system that lacks something: `without-layer.py WHAT COMMAND…`.

WHAT is the name of a system call, or a group of them, that fails from here on, or `cgroup`, which hides the folder.
"""

import ctypes
import errno
import os
import platform
import struct
import sys

COLUMN, AUDIT = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}[platform.machine()]
NEW_NAMESPACES = 0x7E020080
# WHAT: [((x86_64, aarch64), error, (argument, "equal" | "any", value) or None)]
MISSING = {
    "landlock": [((444, 444), errno.ENOSYS, None)],
    "landlock-off": [((444, 444), errno.EOPNOTSUPP, None)],
    "seccomp": [((157, 167), errno.EINVAL, (0, "equal", 22)), ((317, 277), errno.EINVAL, None)],
    "no_new_privs": [((157, 167), errno.EINVAL, (0, "equal", 38))],
    "namespaces": [((272, 97), errno.EPERM, None), ((56, 220), errno.EPERM, (0, "any", NEW_NAMESPACES)), ((435, 435), errno.ENOSYS, None)],
    "clone": [((56, 220), errno.EPERM, (0, "any", NEW_NAMESPACES)), ((435, 435), errno.ENOSYS, None)],
    "userns": [((272, 97), errno.EPERM, (0, "any", 0x10000000))],
    "mount": [((165, 40), errno.EPERM, None)],
    "mount_setattr": [((442, 442), errno.ENOSYS, None)],
    "pivot_root": [((155, 41), errno.EPERM, None)],
    "setresuid": [((117, 147), errno.EPERM, None)],
    "setgroups": [((116, 159), errno.EPERM, None)],
    "capset": [((126, 91), errno.EPERM, None)],
    # A limit is only read where the argument with the new one is null.
    "rlimits": [((160, 164), errno.EPERM, None), ((302, 261), errno.EPERM, (2, "any", 0xFFFFFFFF))],
}
LOAD, EQUAL, ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
ALLOW, ERROR = 0x7FFF0000, 0x00050000


def program(rules):
    lines = [(LOAD, 0, 0, 4), (EQUAL, 1, 0, AUDIT), (RETURN, 0, 0, ALLOW)]
    for numbers, error, condition in rules:
        lines.append((LOAD, 0, 0, 0))
        if condition is None:
            lines += [(EQUAL, 0, 1, numbers[COLUMN]), (RETURN, 0, 0, ERROR | error)]
        else:
            argument, kind, value = condition
            test = EQUAL if kind == "equal" else ANY_BIT
            lines += [
                (EQUAL, 0, 3, numbers[COLUMN]),
                (LOAD, 0, 0, 16 + 8 * argument),
                (test, 0, 1, value),
                (RETURN, 0, 0, ERROR | error),
            ]
    lines.append((RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("<HBBI", *line) for line in lines)


def main():
    what, *command = sys.argv[1:]
    libc = ctypes.CDLL(None, use_errno=True)
    if what == "cgroup":
        steps = [libc.unshare(0x20000), libc.mount(b"none", b"/", None, ctypes.c_ulong(0x44000), None)]
        steps.append(libc.mount(b"tmpfs", b"/sys/fs/cgroup", b"tmpfs", ctypes.c_ulong(1), None))
    else:
        code = program(MISSING[what])
        filter_program = struct.pack("HxxxxxxP", len(code) // 8, ctypes.cast(code, ctypes.c_void_p).value)
        # Root installs it without giving up the right to new privileges, which the sandbox itself must do.
        steps = [0 if os.geteuid() == 0 else libc.prctl(38, 1, 0, 0, 0), libc.prctl(22, 2, filter_program, 0, 0)]
    if any(steps):
        sys.exit("%s could not be taken away: %s" % (what, os.strerror(ctypes.get_errno())))
    os.execv(command[0], command)


main()
