"""seccomp: refuses system calls that no code in a sandbox needs, and that were used to escape from sandboxes."""

from __future__ import annotations

import struct

from . import linux
from .linux import LayerError

# name: (x86_64, aarch64); None if the architecture has no such call.
_DENIED = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "unshare": (272, 97),
    "setns": (308, 268),
    "open_by_handle_at": (304, 265),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "vhangup": (153, 58),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "uselib": (134, None),
    "ustat": (136, None),
    "sysfs": (139, None),
    "lookup_dcookie": (212, 18),
    "nfsservctl": (180, 42),
    "mbind": (237, 235),
    "set_mempolicy": (238, 237),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "personality": (135, 92),
    "fanotify_init": (300, 262),
}
_ARCHITECTURE = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
# socket and socketpair: the family is the first argument of both.
_SOCKETS = {"x86_64": (41, 53), "aarch64": (198, 199)}
_X32 = 0x40000000
# AF_UNIX, AF_INET, AF_INET6, AF_NETLINK. Network namespaces do not confine other families, such as vsock.
_FAMILIES = (1, 2, 10, 16)
_NEW_NAMESPACES = 0x7E020080  # every CLONE_NEW* flag, time namespaces included

# Calls that set a file's mode, (x86_64, aarch64), and which argument is the mode. Set-uid and set-gid files are refused,
# because they would work on the host's side of the workspace.
_MODE_SETTERS = (
    ((90, None), 1),  # chmod
    ((91, 52), 1),  # fchmod
    ((268, 53), 2),  # fchmodat
    ((452, 452), 2),  # fchmodat2
    ((133, None), 1),  # mknod
    ((259, 33), 2),  # mknodat
    ((85, None), 1),  # creat
)
# open and openat use the mode only if they may create a file: (numbers, flags argument, mode argument).
_OPENERS = (((2, None), 1, 2), ((257, 56), 2, 3))
_OPENAT2 = 437
_SET_ID_BITS = 0o6000
_CREATES = 0o100 | 0o20000000  # O_CREAT, O_TMPFILE

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL = 0x7FFF0000, 0x80000000
_EPERM, _ENOSYS, _EAFNOSUPPORT = 0x00050001, 0x00050026, 0x00050061
_NR, _ARCH, _ARG0 = 0, 4, 16


def _argument(index: int) -> int:
    return _ARG0 + 8 * index


def program() -> bytes:
    """The filter in the format of Linux: 8 bytes per instruction, little endian."""
    machine = linux.MACHINE
    if machine not in _ARCHITECTURE:
        raise LayerError("seccomp", "no filter for the architecture %s" % machine)
    audit, column = _ARCHITECTURE[machine]
    lines = [
        (_LOAD, 0, 0, _ARCH),
        (_EQUAL, 1, 0, audit),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NR),
    ]
    if machine == "x86_64":
        lines += [(_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _EPERM)]
    # The filter cannot see the flags of clone3 and openat2, which are behind a pointer. With ENOSYS, callers use the
    # older calls, which the filter checks.
    for number in (linux.CLONE3, _OPENAT2):
        lines += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ENOSYS)]
    for numbers in _DENIED.values():
        number = numbers[column]
        if number is not None:
            lines += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _EPERM)]
    for numbers, mode in _MODE_SETTERS:
        if numbers[column] is not None:
            lines += [
                (_EQUAL, 0, 4, numbers[column]),
                (_LOAD, 0, 0, _argument(mode)),
                (_ANY_BIT, 0, 1, _SET_ID_BITS),
                (_RETURN, 0, 0, _EPERM),
                (_RETURN, 0, 0, _ALLOW),
            ]
    for numbers, flags, mode in _OPENERS:
        if numbers[column] is not None:
            lines += [
                (_EQUAL, 0, 6, numbers[column]),
                (_LOAD, 0, 0, _argument(flags)),
                (_ANY_BIT, 0, 3, _CREATES),
                (_LOAD, 0, 0, _argument(mode)),
                (_ANY_BIT, 0, 1, _SET_ID_BITS),
                (_RETURN, 0, 0, _EPERM),
                (_RETURN, 0, 0, _ALLOW),
            ]
    lines += [
        (_EQUAL, 0, 4, linux.number("clone")),
        (_LOAD, 0, 0, _ARG0),
        (_ANY_BIT, 0, 1, _NEW_NAMESPACES),
        (_RETURN, 0, 0, _EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]
    for number in _SOCKETS[machine]:
        lines += [(_EQUAL, 0, len(_FAMILIES) + 3, number), (_LOAD, 0, 0, _ARG0)]
        for index, family in enumerate(_FAMILIES):
            lines.append((_EQUAL, len(_FAMILIES) - index, 0, family))
        lines += [(_RETURN, 0, 0, _EAFNOSUPPORT), (_RETURN, 0, 0, _ALLOW)]
    lines.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("<HBBI", *line) for line in lines)
