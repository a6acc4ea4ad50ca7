"""Pid 1 of a sandbox: a clean, frozen kernel that never runs user code.

It closes the sandbox around itself, forks kernels, signals them, reaps what is left, and tells the host of each
death. It ends, and everything in its pid namespace with it, when the host lets go of the connection.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import time
from typing import Any, Dict, List, Optional, Tuple

from . import frames, kernel
from .doorbell import Doorbell
from .frames import Channel
from .sandbox import linux
from .sandbox.cgroup import Group
from .sandbox.launch import Confinement, Launcher
from .sandbox.linux import LayerError

_RESEND_S = 0.01
_MOST_DESCRIPTORS = 200
# What the template says on the way it hands descriptors over: a kernel's, the policy with its folders, or why there are none.
KERNEL, POLICY, NO_FOLDERS = b"K", b"P", b"E"
# How long pid 1 waits for the host to hear why there is no sandbox.
_LAST_WORDS_S = 2.0
# How often, and how long apart, processes without a namespace are killed: one that forks may be missed once.
_MOST_ROUNDS, _ROUND_S = 200, 0.005


class Supervisor:
    def __init__(self, channel: Channel, handoff: socket.socket, launcher: Optional[Launcher], group: Optional[Group]) -> None:
        self._channel = channel
        self._handoff = handoff
        self._launcher = launcher
        self._group = group
        self._confined = False
        self._folders: Optional[List[int]] = None
        self._gate: Optional[socket.socket] = None
        self._poll = select.poll()
        self._pending: List[List[int]] = []
        self._spec: Optional[Dict[str, Any]] = None
        self._kernel = 0
        self._doorbell = Doorbell()
        self._ringing = False
        self._rings = 0
        self._next_ring = 0.0
        self._oom_kills = 0

    def serve(self) -> None:
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        os.set_blocking(writer, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for fd in (self._channel.fd, self._handoff.fileno(), reader):
            self._poll.register(fd, select.POLLIN)
        # Something may have come in one piece with OPEN.
        self._heed()
        while True:
            for fd, _ in self._poll.poll(_RESEND_S * 1000 if self._ringing else None):
                if fd == reader:
                    os.read(reader, 4096)
                elif fd == self._channel.fd:
                    self._from_host()
                elif fd == self._handoff.fileno():
                    self._from_template()
                elif self._gate is not None and fd == self._gate.fileno():
                    self._from_kernel()
            self._reap()
            self._ring_again()

    def _from_host(self) -> None:
        if not self._channel.fill():
            self._end()
        self._heed()

    def _heed(self) -> None:
        while True:
            frame = self._channel.take()
            if frame is None:
                return
            kind, number, _ = frame
            if kind == frames.INTERRUPT:
                self._interrupt(number)
            elif kind == frames.KILL:
                self._kill_all()

    def _from_template(self) -> None:
        message, descriptors, _, _ = socket.recv_fds(self._handoff, 1, _MOST_DESCRIPTORS)
        if message == KERNEL:
            self._pending.append(list(descriptors))
        elif message == POLICY:
            self._folders = list(descriptors)
            self._spec = json.loads(self._line())
        elif message == NO_FOLDERS:
            body = json.loads(self._line())
            self._fail(LayerError(body["layer"], body["message"]))
        else:
            self._end()
        self._advance()

    def _line(self) -> bytes:
        """The rest of a message of the template's, which is trusted to end it."""
        line = bytearray()
        while not line.endswith(b"\n"):
            # No further than the end of the line: what comes next may bring descriptors.
            ahead = self._handoff.recv(65536, socket.MSG_PEEK)
            end = ahead.find(b"\n") + 1
            part = self._handoff.recv(end or len(ahead))
            if not part:
                self._end()
            line += part
        return bytes(line)

    def _advance(self) -> None:
        """Forks a kernel for a connection that waits, and closes the sandbox once its policy is known.

        A spare's kernel comes before the policy, and closes itself in beside pid 1; any other inherits most of it.
        """
        if self._pending and not self._kernel:
            self._fork(self._pending.pop(0))
        if self._spec is not None and not self._confined:
            try:
                self._close_in(self._spec)
            except LayerError as error:
                self._fail(error)
            except OSError as error:
                self._fail(LayerError("workspace", str(error)))

    def _close_in(self, spec: Dict[str, Any]) -> None:
        if self._launcher is not None:
            self._launcher.bring_in(spec, self._group, self._folders or [])
        self._confined = True
        self._let_go()
        if self._launcher is not None:
            self._launcher.retire(spec)

    def _let_go(self) -> None:
        """Tells the kernel that its files are there, and nothing else is: it may close itself in and begin."""
        if self._gate is not None:
            try:
                self._gate.sendall(b"G")
            except OSError:
                pass  # the kernel is gone, and has left its reason to be read

    def _from_kernel(self) -> None:
        """The kernel's side of the gate closes when it is confined; before that it says why it could not be."""
        assert self._gate is not None
        try:
            message = self._gate.recv(65536)
        except ConnectionResetError:
            message = b""  # it died with our word unread; `_reap` tells how
        self._poll.unregister(self._gate.fileno())
        self._gate.close()
        self._gate = None
        if message:
            body = json.loads(message)
            self._fail(LayerError(body["layer"], body["message"]))

    def _fail(self, error: Exception) -> None:
        self._kill_all()
        _say_why(self._channel, error)
        self._end()

    def _fork(self, descriptors: List[int]) -> None:
        self._ringing = False
        self._doorbell = Doorbell()
        ours, theirs = socket.socketpair()
        # Made before the fork, so that the memory it takes is shared.
        confinement = None if self._launcher is None else Confinement(self._launcher, inherited=self._confined)
        pid = linux.fork()
        if pid == 0:
            ours.close()
            self._become_kernel(descriptors, theirs, confinement)
        theirs.close()
        if confinement is not None:
            confinement.discard()
        self._gate = ours
        self._poll.register(ours.fileno(), select.POLLIN)
        self._kernel = pid
        for fd in descriptors:
            os.close(fd)
        self._channel.send(frames.STARTED, pid)
        if self._confined:
            self._let_go()

    def _become_kernel(self, descriptors: List[int], gate: socket.socket, confinement: Optional[Confinement]) -> None:
        """The kernel's side of a fork. What can be done before the policy is known is done first."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        the_kernel = kernel.the_kernel
        assert the_kernel is not None
        try:
            if confinement is not None:
                confinement.begin()
            os.setsid()
            keep = [gate.fileno(), *(confinement.descriptors() if confinement else ())]
            # Those of pid 1 (its own connection, its control group) may have any number; the kernel gets none of them.
            _close_others({*descriptors, *keep})
            the_kernel.adopt(descriptors, self._doorbell)
            os.environ.clear()
            the_kernel.limber()
            spec = the_kernel.policy()
            if confinement is None:
                if linux.supported():
                    linux.die_with_parent()
            elif self._launcher is not None and not self._confined:
                self._launcher.give_up_rights(spec, bounded=True)
            os.environ.update(spec["env"])
            time.tzset()
            os.umask(0o022)
            if gate.recv(1) != b"G":
                os._exit(0)  # pid 1 is gone, and with it the sandbox
            if confinement is not None:
                confinement.narrow(spec)
                linux.set_dumpable(True)
            _enter(spec["cwd"])
            gate.close()
        except BaseException as error:
            gate.sendall(json.dumps(reason(error)).encode())
            os._exit(72)
        try:
            the_kernel.serve()
        finally:
            os._exit(70)

    def _interrupt(self, execution: int) -> None:
        if not self._kernel:
            return
        self._doorbell.ring(execution)
        self._ringing = True
        self._rings = 0
        self._ring()

    def _ring_again(self) -> None:
        if not self._ringing:
            return
        if not self._kernel or self._doorbell.heard():
            self._ringing = False
        elif time.monotonic() >= self._next_ring:
            self._ring()

    def _ring(self) -> None:
        """The whole group at first, as a terminal would: a child that the code waits for must stop as well.

        A signal that came just before a blocking call, or while the code had it ignored, is not heard, so the kernel is
        signalled again; the group more and more rarely, for a child may have come after the last time.
        """
        self._rings += 1
        whole_group = self._rings & (self._rings - 1) == 0
        self._signal(-self._kernel if whole_group else self._kernel, signal.SIGINT)
        self._next_ring = time.monotonic() + _RESEND_S

    def _signal(self, pid: int, number: int) -> None:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            pass  # it ended by itself, and is reaped next; or, without a sandbox, became another user's

    def _reap(self) -> None:
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._kernel:
                self._died(status, usage.ru_utime + usage.ru_stime)

    def _died(self, status: int, cpu_seconds: float) -> None:
        self._kernel = 0
        self._ringing = False
        if self._gate is not None:
            self._from_kernel()
        self._kill_all()
        body: Dict[str, Any] = {"outOfMemory": self._was_out_of_memory(), "cpuSeconds": cpu_seconds}
        if os.WIFSIGNALED(status):
            number = os.WTERMSIG(status)
            # Code that ignores SIGXCPU meets the hard limit, which kills without a word.
            past_limit = self._spec is not None and cpu_seconds > self._spec["limits"]["cpuSeconds"] + 1
            body["signal"] = signal.SIGXCPU if number == signal.SIGKILL and past_limit else number
        else:
            body["exitCode"] = os.WEXITSTATUS(status)
        self._channel.send(frames.DIED, 0, json.dumps(body).encode())
        self._advance()

    def _was_out_of_memory(self) -> bool:
        if self._group is None:
            return False
        kills = self._group.oom_kills()
        grew = kills > self._oom_kills
        self._oom_kills = kills
        return grew

    def _kill_all(self) -> None:
        """Ends every other process of this sandbox; the kernel's own death is told by `_reap`."""
        if self._launcher is not None:
            self._signal(-1, signal.SIGKILL)
        else:
            for pid in _descendants(os.getpid()):
                self._signal(pid, signal.SIGKILL)

    def _end(self) -> None:
        self._kill_all()
        os._exit(0)


def end_descendants() -> None:
    """Without a pid namespace: kills what came from this process, which adopts orphans, until nothing is left."""
    for _ in range(_MOST_ROUNDS):
        pids = _descendants(os.getpid())
        if not pids:
            return
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass  # it ended by itself, or became another user's
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass
        time.sleep(_ROUND_S)


def _descendants(root: int) -> List[int]:
    """Without a pid namespace: what /proc says came from here. Children that left for another parent are missed."""
    parents: List[Tuple[int, int]] = []
    try:
        names = os.listdir("/proc")
    except OSError:
        return []  # no /proc on this system: the kernel ends with its connection
    for name in names:
        if name.isdigit():
            try:
                with open("/proc/%s/stat" % name, encoding="utf-8", errors="replace") as file:
                    parents.append((int(name), int(file.read().rpartition(")")[2].split()[1])))
            except OSError:
                continue  # it ended while we looked
    found = {root}
    grew = True
    while grew:
        more = {pid for pid, parent in parents if parent in found and pid not in found}
        grew = bool(more)
        found |= more
    return sorted(found - {root})


def _enter(folder: str) -> None:
    try:
        os.chdir(folder)
    except OSError as error:
        raise LayerError("workspace", str(error)) from error


def reason(error: BaseException) -> Dict[str, str]:
    if isinstance(error, LayerError):
        return {"layer": error.layer, "message": error.message}
    return {"layer": "template", "message": "%s: %s" % (type(error).__name__, error)}


def fail(channel: Channel, error: BaseException) -> None:
    channel.send(frames.FAILED, 0, json.dumps(reason(error)).encode())


def _say_why(channel: Channel, error: BaseException) -> None:
    """The host hangs up, not we: a write of its own to a closed connection would make it miss the reason."""
    fail(channel, error)
    deadline = time.monotonic() + _LAST_WORDS_S
    poll = select.poll()
    poll.register(channel.fd, select.POLLIN)
    while poll.poll(max(0.0, deadline - time.monotonic()) * 1000) and os.read(channel.fd, 65536):
        pass  # what it still asks of a sandbox that is none


def main(channel: Channel, handoff: socket.socket, launcher: Optional[Launcher], group: Optional[Group], request: Dict[str, Any]) -> None:
    """Never returns. Runs in the process that the template has just made."""
    try:
        keep = {channel.fd, handoff.fileno(), *(group.descriptors() if group else ())}
        signal.set_wakeup_fd(-1)
        _close_all_but(keep)
        if launcher is None:
            os.setsid()
            if linux.supported():
                linux.die_with_parent()
                linux.adopt_orphans()
        else:
            launcher.begin(request["network"], group)
        Supervisor(channel, handoff, launcher, group).serve()
    except BaseException as error:
        _say_why(channel, error)
    finally:
        os._exit(71)


def _close_all_but(keep: "set[int]") -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nothing, fd)
    _close_others(keep)


def _close_others(keep: "set[int]") -> None:
    """Closes every descriptor but the standard ones and `keep`, however high its number."""
    first = 3
    for fd in sorted(keep):
        os.closerange(first, fd)
        first = fd + 1
    linux.close_from(first)
