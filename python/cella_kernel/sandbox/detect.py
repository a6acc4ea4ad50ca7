"""Which layers of isolation this machine has. Each layer is tried in a child process that then ends."""

from __future__ import annotations

import ctypes
import errno
import json
import os
import platform
import resource
import select
import sys
import tempfile
import time
from typing import Any, Callable, Dict, List, Tuple

from . import cgroup, landlock, launch, limits, linux, seccomp
from ..processes import end_group
from ..protocol import LEAST_OPEN_FILES
from .linux import NEWNS, NEWUSER, LayerError
from .mounts import mount

# Long enough for a busy machine, so that a working layer is not reported as missing. The host waits for seven such trials.
_TRIAL_S = 8.0
_LIMITS = {
    "memoryBytes": 96 << 20, "processes": 64, "cpuSeconds": 10, "fileBytes": 1 << 20, "openFiles": 64,
    "scratchBytes": 4 << 20,
}  # fmt: skip
_FIXES = {
    "namespaces": "Inside a container, allow the system calls mount, pivot_root and unshare (for Docker: --privileged, "
    "or --cap-add SYS_ADMIN with --security-opt seccomp=unconfined --security-opt apparmor=unconfined). "
    "As an ordinary user, see userns. Linux 5.12 or later is needed.",
    "userns": "Allow user namespaces to ordinary users: sysctl kernel.unprivileged_userns_clone=1 (Debian), "
    "sysctl kernel.apparmor_restrict_unprivileged_userns=0 (Ubuntu), sysctl user.max_user_namespaces=15000; "
    "or run as root.",
    "landlock": "Use Linux 5.13 or later with Landlock, and turn it on at boot: lsm=landlock,... with the modules that "
    "/sys/kernel/security/lsm lists.",
    "seccomp": "Use a kernel with CONFIG_SECCOMP_FILTER; inside a container, allow the system calls prctl and seccomp.",
    "uid": "Give this process CAP_SETUID and CAP_SETGID, and in a container uids from 20000 to 60000; "
    "or run as an ordinary user.",
    "cgroup": "Run as root with /sys/fs/cgroup writable, or delegate a control group to this user: systemd-run --user "
    "--scope -p Delegate=yes, or Delegate=yes in the service.",
    "rlimits": "Raise the hard limits of this process (ulimit -H), and allow the system call prlimit64.",
}


def main(options: Dict[str, Any]) -> None:
    """`options`: `uids`, of which sandboxes of a root host use the first that this system has."""
    print(json.dumps(detect(options["uids"])))


def detect(uids: List[int]) -> Dict[str, Any]:
    return {
        "python": "%d.%d.%d" % sys.version_info[:3],
        "executable": sys.executable,
        "prefix": sys.prefix,
        "basePrefix": sys.base_prefix,
        "machine": linux.MACHINE,
        "kernel": platform.release(),
        "root": os.geteuid() == 0,
        "layers": _layers(uids),
    }


def _layers(uids: List[int]) -> List[Dict[str, Any]]:
    folder = tempfile.mkdtemp(prefix="cella-detect-")
    trials: List[Tuple[str, Callable[[str], str]]] = [
        ("namespaces", _namespaces), ("userns", _user_namespace), ("landlock", _landlock), ("seccomp", _seccomp),
        ("uid", lambda _: _uid(uids)), ("cgroup", _cgroup), ("rlimits", _rlimits),
    ]  # fmt: skip
    layers = []
    try:
        for name, trial in trials:
            available, detail = attempt(lambda: trial(folder))
            if name == "userns" and os.geteuid() == 0:
                detail = "kernels of a root host start without it; " + detail
            fix = "" if available else _FIXES[name]
            layers.append({"name": name, "available": available, "detail": detail, "fix": fix})
    finally:
        if linux.supported():
            cgroup.sweep()  # a killed trial leaves its control group
        # Trials mount on it only in their own mount namespaces, which end with them.
        os.rmdir(folder)
    return layers


def attempt(trial: Callable[[], str], seconds: float = _TRIAL_S) -> Tuple[bool, str]:
    """Runs a trial in a child. It succeeds only if the child reports success in time."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        _run_trial(trial, writer)
    os.close(writer)
    report, in_time = _read_report(reader, time.monotonic() + seconds)
    os.close(reader)
    status = end_group(pid)
    text = report[1:].decode("utf-8", "replace")
    if report[:1] in (b"+", b"-"):
        return report[:1] == b"+", text
    if not in_time:
        return False, "the trial did not end within %.1f s" % seconds
    if os.WIFSIGNALED(status):
        return False, "the trial was ended by signal %d" % os.WTERMSIG(status)
    return False, "the trial ended without a report (exit code %d)" % os.WEXITSTATUS(status)


def _run_trial(trial: Callable[[], str], writer: int) -> None:
    """Never returns."""
    try:
        os.setsid()
        if not linux.supported():
            raise LayerError("", "Linux on x86_64 or aarch64 is needed; this is %s" % linux.MACHINE)
        linux.die_with_parent()
        report = "+" + trial()
    except LayerError as error:
        report = "-" + error.message
    except OSError as error:
        report = "-" + str(error)
    except BaseException as error:
        report = "-%s: %s" % (type(error).__name__, error)
    try:
        os.write(writer, report.encode("utf-8", "replace")[:4096])
    finally:
        os._exit(0)


def _read_report(reader: int, deadline: float) -> Tuple[bytes, bool]:
    """What the child writes until it ends, and whether it ended in time."""
    report = b""
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([reader], [], [], left)[0]:
            return b"", False
        data = os.read(reader, 8192)
        if not data:
            return report, True
        report += data


def _namespaces(folder: str) -> str:
    """Sets up a complete sandbox: its own mounts, network, host name and processes, without the host's file tree."""
    launcher = launch.Launcher(folder, (), need_cgroup=False)
    if launcher.groups is not None:
        # Control groups have a trial of their own.
        launcher.groups.remove()
        launcher.groups = None
    reader, writer = os.pipe()
    pid, resources = launcher.start("none")
    if pid == 0:
        os.close(reader)
        problem = "pid 1 of the new namespaces failed"
        try:
            launcher.enter_sandbox(resources)
            ids = {"uid": os.geteuid(), "gid": os.getegid()}
            spec = {"readable": [], "writable": [], "limits": _LIMITS, "home": "/", "network": "none", **ids}
            launcher.apply_spec(spec, None, [])
            seen = [name for name in os.listdir("/proc") if name.isdigit()]
            problem = "" if os.getpid() == 1 and seen == ["1"] else "other processes can be seen: %s" % seen
        except LayerError as error:
            problem = error.message
        except OSError as error:
            problem = str(error)
        finally:
            os.write(writer, problem.encode("utf-8", "replace"))
            os._exit(0)
    os.close(writer)
    problem = os.read(reader, 4096).decode("utf-8", "replace")
    _, status = os.waitpid(pid, 0)
    if problem or status != 0:
        raise LayerError("namespaces", problem or "pid 1 of the new namespaces ended with status %d" % status)
    return "mounts, processes, network, host name and IPC of their own"


def _user_namespace(folder: str) -> str:
    launch.enter_user_namespace(NEWUSER | NEWNS)
    # Some systems allow a user namespace, but nothing inside it.
    mount("tmpfs", folder, "tmpfs", 0)
    return "user namespaces work"


def _landlock(folder: str) -> str:
    with open(__file__, "rb"):
        pass  # readable now, so that a later refusal comes from Landlock
    rules = landlock.Ruleset()
    rules.allow_writing(folder)
    linux.no_new_privileges()
    rules.restrict()
    try:
        os.close(os.open(__file__, os.O_RDONLY))
    except PermissionError:
        return "ABI %d" % landlock.abi()
    raise LayerError("landlock", "a file outside the allowed folders could still be read")


def _seccomp(_: str) -> str:
    linux.no_new_privileges()
    linux.install_filter(seccomp.program())
    # unshare(0) does nothing, so it succeeds unless the filter refuses it.
    if linux.libc.unshare(0) == 0 or ctypes.get_errno() != errno.EPERM:
        raise LayerError("seccomp", "a filtered system call was not refused")
    return "system calls are filtered (%s)" % linux.MACHINE


def _uid(uids: List[int]) -> str:
    if os.geteuid() != 0:
        uid = os.geteuid()
        launch.enter_user_namespace(NEWUSER)
        linux.drop_capabilities()
        if os.geteuid() != uid:
            raise LayerError("uid", "the uid changed on the way into a user namespace")
        return "kernels keep this user's own uid (%d) inside a user namespace" % uid
    with open("/proc/self/uid_map", encoding="ascii") as file:
        mapped = max(int(first) + int(count) for first, _, count in (line.split() for line in file))
    uid = next((one for one in uids if one < mapped), uids[-1])
    launch.become_user(uid, uid)
    try:
        os.setuid(0)
    except PermissionError:
        return "each agent key has a uid of its own (tried as %d)" % uid
    raise LayerError("uid", "a process that had become uid %d could become root again" % uid)


def _cgroup(_: str) -> str:
    try:
        groups = cgroup.find()
    except LayerError as error:
        mounted = " and ".join("version %d" % version for version in cgroup.versions())
        problem = "%s mounted, not usable: %s" % (mounted, error.message) if mounted else "none is mounted"
        raise LayerError("cgroup", problem) from error
    groups.remove()
    shares = "memory, pids and cpu" if groups.has_shares else "memory and pids; no shares of the processors"
    return "version %d, %s" % (groups.version, shares)


def _rlimits(_: str) -> str:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < LEAST_OPEN_FILES:
        raise LayerError("rlimits", "%d files may be open, and a kernel needs %d: ulimit -n 1024" % (hard, LEAST_OPEN_FILES))
    limits.apply(_LIMITS, alone=True)
    limits.limit_open_files(_LIMITS["openFiles"])
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] > _LIMITS["openFiles"]:
        raise LayerError("rlimits", "the limit on open files did not hold")
    try:
        bytearray(2 * _LIMITS["memoryBytes"])
    except MemoryError:
        return "memory, processes, CPU time, file size and open files"
    raise LayerError("rlimits", "memory past the limit could be taken")
