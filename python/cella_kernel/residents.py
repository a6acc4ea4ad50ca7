"""Who lives in a sandbox: its kernels, the frozen forks ("twins") that can become kernels, and the host's commands.

They have the numbers that the host gave them. Processes that are none of them were started by the code, and end with
the kernel or the command that they came from.
"""

from __future__ import annotations

import array
import json
import os
import signal
import socket
import time
from collections import deque
from typing import Any, Deque, Dict, List, Optional, Set, Tuple, Union

from . import frames, handoff
from .command import GENTLY
from .doorbell import Doorbell, Doorbells
from .frames import Channel
from .memory_watch import MemoryWatch
from .processes import descendants, is_held_still, parents, send_signal
from .ringing import AGAIN_S, Ringer
from .sandbox.cgroup import Group, OwnGroup
from .sandbox.linux import LayerError

_MOST_TWINS = 128
# How long the death of a kernel waits for the processes that were killed with it: they count against the limits.
_REAP_S, _REAP_AGAIN_S = 1.0, 0.0005
# Longer than whoever stands over a command needs to end all that came from it, and how often that one is looked at:
# the command may hold it still.
_LONGEST_END_S, _END_LOOK_S = 3.0, 0.05
# How often processes that fork faster than they are found are looked for, before everything is held still for that.
_MOST_ROUNDS = 50


class _Twin:
    __slots__ = ("pid", "way", "becoming")

    def __init__(self, pid: int, way: socket.socket) -> None:
        self.pid = pid
        self.way = way
        # The kernel that it was asked to be, until it is, and the doorbell of that.
        self.becoming: Optional[Tuple[int, Doorbell]] = None


class Residents:
    """`alone`: this is pid 1 of a pid namespace, where everything else came from a kernel."""

    def __init__(self, channel: Channel, group: Union[Group, OwnGroup, None], alone: bool) -> None:
        self._channel = channel
        self._group: Union[Group, OwnGroup, MemoryWatch, None] = group
        self._watch: Optional[MemoryWatch] = None
        self._alone = alone
        self._bells = Doorbells()
        self._kernels: Dict[int, Tuple[int, Ringer]] = {}
        self._twins: Dict[int, _Twin] = {}
        self._commands: Dict[int, int] = {}
        # The process of ours that passes connections on to the host's proxy, while there is one.
        self.forwarder: Optional[int] = None
        # Commands that were told to end, and until when they have time for it.
        self._ending: Dict[int, float] = {}
        # The host may want one to end before it has come here: its connection takes another way than this wish. Most of
        # these have ended instead; numbers are never used again.
        self._too_early: Deque[int] = deque(maxlen=1024)
        # Strangers that are to end as soon as they can be told from kernels.
        self._put_off: Set[int] = set()
        self._cpu_seconds = 0
        self._oom_kills = 0

    def limit_cpu(self, seconds: int) -> None:
        self._cpu_seconds = seconds

    def watch_memory(self, most_bytes: int) -> None:
        """Where nobody else counts it."""
        if self._group is None and self._alone:
            self._group = self._watch = MemoryWatch(most_bytes)

    def look_around(self) -> None:
        if self._watch is not None and self._commands:
            self._watch.look()
        for _, ringer in self._kernels.values():
            ringer.again()
        self._end_late()

    def _end_late(self) -> None:
        """Ends commands for whoever stands over them and cannot: it was told to go on, and is held still again."""
        now = time.monotonic()
        for number, deadline in list(self._ending.items()):
            pid = self._commands[number]
            if now > deadline or is_held_still(pid):
                for each in [*descendants(pid), pid]:
                    send_signal(each, signal.SIGKILL)

    @property
    def pause_s(self) -> Optional[float]:
        """How long until somebody must `look_around` again; None where nothing is to be looked at."""
        pauses = [AGAIN_S] if any(ringer.ringing for _, ringer in self._kernels.values()) else []
        if self._watch is not None and self._commands:
            pauses.append(self._watch.pause_s)
        if self._ending:
            pauses.append(_END_LOOK_S)
        return min(pauses) if pauses else None

    def new_bell(self) -> Doorbell:
        return self._bells.take()

    def add_kernel(self, number: int, pid: int, bell: Doorbell) -> None:
        self._kernels[number] = (pid, Ringer(pid, bell))
        self._begin(number)

    def add_command(self, number: int, pid: int) -> None:
        self._commands[number] = pid
        self._begin(number)

    def _begin(self, number: int) -> None:
        if number in self._too_early:
            self._too_early.remove(number)
            self.kill(number)

    def interrupt(self, number: int, execution: int) -> None:
        if number in self._kernels:
            self._kernels[number][1].ring(execution)

    def told(self, pid: int, word: Dict[str, Any], descriptors: List[int]) -> None:
        """A process of this sandbox says what it is. The descriptors stay the caller's: what is kept, is copied."""
        number = word["twin" if "twin" in word else "kernel"]
        if type(number) is not int:
            raise TypeError("a number is wanted")
        if "twin" not in word:
            self._became(pid, number)
        elif number in self._twins or len(self._twins) >= _MOST_TWINS:
            send_signal(pid, signal.SIGKILL)
        else:
            way = _copy(descriptors[0])
            with _copy(descriptors[1]) as kernel:
                # From here on the host may ask for it.
                kernel.send(b"+", socket.MSG_DONTWAIT)
            self._twins[number] = _Twin(pid, way)

    def _became(self, pid: int, number: int) -> None:
        """A twin, or a fork of one that stays, is a kernel from here on."""
        for twin_number, twin in list(self._twins.items()):
            if twin.becoming is None or twin.becoming[0] != number:
                continue
            self.add_kernel(number, pid, twin.becoming[1])
            twin.becoming = None
            if twin.pid == pid:
                self._forget(twin_number)
        self._catch_up()

    @property
    def _waking(self) -> bool:
        """Whether a twin is about to be a kernel, or to fork one: nobody knows that process before it tells."""
        return any(twin.becoming is not None for twin in self._twins.values())

    def _catch_up(self) -> None:
        if self._put_off and not self._waking:
            late, self._put_off = self._put_off, set()
            for pid in late & self._strangers(self._all()):
                send_signal(pid, signal.SIGKILL)

    def _all(self) -> Set[int]:
        """Everybody who is known; of the commands, with all that came from them: the host says when they end."""
        commands = set(self._commands.values())
        for pid in self._commands.values():
            commands.update(descendants(pid))
        if self.forwarder is not None:
            commands.add(self.forwarder)
        return commands | {twin.pid for twin in self._twins.values()} | {pid for pid, _ in self._kernels.values()}

    def _strangers(self, spared: Set[int]) -> Set[int]:
        mine = parents().keys() - {os.getpid()} if self._alone else set(descendants(os.getpid(), spared))
        return mine - spared

    def revive(self, twin_number: int, number: int, keep: bool, descriptors: List[int]) -> None:
        """Hands a connection to a twin, which becomes a kernel, or forks one where it is kept."""
        twin = self._twins.get(twin_number)
        if twin is None:
            raise LayerError("twin", "the point to go back to is gone")
        if twin.becoming is not None:
            self._bells.give(twin.becoming[1])
        bell = self._bells.take()
        twin.becoming = (number, bell)
        message = handoff.KERNEL + json.dumps({"kernel": number, "keep": keep, "place": bell.place}).encode() + b"\n"
        try:
            # Not waited for: the code may have its hand on either end.
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
            sent = twin.way.sendmsg([message], rights, socket.MSG_DONTWAIT)
        except OSError:
            sent = 0
        if sent < len(message):
            self._bells.give(bell)
            twin.becoming = None
            raise LayerError("twin", "the point to go back to does not answer")

    def drop(self, number: int) -> None:
        twin = self._twins.get(number)
        if twin is not None:
            self._forget(number)
            send_signal(twin.pid, signal.SIGKILL)

    def _forget(self, number: int) -> None:
        self._twins.pop(number).way.close()

    def kill(self, number: int, gently: bool = False) -> None:
        """Ends a kernel or a command and what came from it; its death is told by `reap`.

        `gently`: a command is asked to end, and may go on.
        """
        if number in self._commands:
            # It sees to its own family, which nobody else can tell; also where somebody of that holds it still.
            send_signal(self._commands[number], GENTLY if gently else signal.SIGTERM)
            send_signal(self._commands[number], signal.SIGCONT)
            if not gently:
                self._ending.setdefault(number, time.monotonic() + _LONGEST_END_S)
            return
        if number not in self._kernels:
            if not self._give_up(number):
                self._too_early.append(number)
            return
        pid = self._kernels[number][0]
        if len(self._kernels) == 1:
            self._kill_strangers({pid})
        else:
            self._kill_family(pid)

    def _give_up(self, number: int) -> bool:
        """A twin was to become this kernel, and has not: it is not waited for any more. False where none was."""
        found = False
        for twin_number, twin in list(self._twins.items()):
            if twin.becoming is not None and twin.becoming[0] == number:
                send_signal(twin.pid, signal.SIGKILL)
                self._lost(twin_number, twin, 0)
                found = True
        return found

    def kill_all(self) -> None:
        if self._alone:
            send_signal(-1, signal.SIGKILL)
        else:
            for pid in descendants(os.getpid()):
                send_signal(pid, signal.SIGKILL)

    def _kill_strangers(self, also: Set[int]) -> None:
        """Everything but twins and the kernels that are not named."""
        spared = self._all() - also
        if self._waking:
            self._put_off |= self._strangers(spared) - also
            for pid in also:
                self._kill_family(pid)
            return
        if self._alone and not spared:
            send_signal(-1, signal.SIGKILL)
            return
        if self._alone and self._commands and self._kill_by_rounds(also):
            return
        if self._alone:
            # Stopped at one stroke, so that nothing can fork its way out while it is looked for.
            send_signal(-1, signal.SIGSTOP)
        for pid in self._strangers(spared):
            send_signal(pid, signal.SIGKILL)
        if self._alone:
            for pid in spared:
                send_signal(pid, signal.SIGCONT)

    def _kill_by_rounds(self, also: Set[int]) -> bool:
        """Beside commands, which are not held still: a shell would take that for Ctrl-Z. False where it finds no end."""
        spared = {*self._commands.values(), *(twin.pid for twin in self._twins.values())}
        spared |= {pid for pid, _ in self._kernels.values()} - also
        if self.forwarder is not None:
            spared.add(self.forwarder)
        killed: Set[int] = set()
        for _ in range(_MOST_ROUNDS):
            # Whoever was killed forks no more: when nobody has come since the last look, nobody is left.
            found = set(descendants(os.getpid(), spared)) - killed
            if not found:
                return True
            for pid in found:
                send_signal(pid, signal.SIGKILL)
            killed |= found
        return False

    def _kill_family(self, pid: int) -> None:
        """Beside other kernels: what descends from this one. Daemons that left it live until the sandbox ends."""
        for descendant in [pid, *descendants(pid, self._all())]:
            send_signal(descendant, signal.SIGKILL)

    def reap(self) -> None:
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._reaped(pid, status, usage.ru_utime + usage.ru_stime)

    def _reaped(self, pid: int, status: int, cpu_seconds: float) -> None:
        if pid == self.forwarder:
            self.forwarder = None
        for number, (own, _) in list(self._kernels.items()):
            if own == pid:
                self._died(number, status, cpu_seconds)
        for number, twin in list(self._twins.items()):
            if twin.pid == pid:
                self._lost(number, twin, status)
        for number, own in list(self._commands.items()):
            if own == pid:
                del self._commands[number]
                self._ending.pop(number, None)
                body = {"outOfMemory": self._ran_out(status), **_how_it_ended(status)}
                self._channel.send(frames.DIED, number, json.dumps(body).encode())
                if self._alone and not self._commands and not self._kernels:
                    # It may have killed whoever stood over it: what it has left is nobody's.
                    self._kill_strangers(set())

    def _died(self, number: int, status: int, cpu_seconds: float) -> None:
        _, ringer = self._kernels.pop(number)
        self._bells.give(ringer.bell)
        if not self._kernels:
            self._kill_strangers(set())
            if not self._put_off:
                self._wait_for_strangers()
        body: Dict[str, Any] = {"outOfMemory": self._was_out_of_memory(), **_how_it_ended(status)}
        # Code that ignores SIGXCPU meets the hard limit, which kills without a word.
        if body.get("signal") == signal.SIGKILL and 0 < self._cpu_seconds < cpu_seconds - 1:
            body["signal"] = int(signal.SIGXCPU)
        self._channel.send(frames.DIED, number, json.dumps(body).encode())

    def _wait_for_strangers(self) -> None:
        deadline = time.monotonic() + _REAP_S
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid:
                self._reaped(pid, status, usage.ru_utime + usage.ru_stime)
            elif not self._alone or parents().keys() <= {os.getpid(), *self._all()}:
                return
            elif time.monotonic() > deadline:
                return
            else:
                time.sleep(_REAP_AGAIN_S)

    def _lost(self, number: int, twin: _Twin, status: int) -> None:
        self._forget(number)
        body = {"outOfMemory": self._was_out_of_memory()}
        self._channel.send(frames.GONE, number, json.dumps(body).encode())
        if twin.becoming is not None:
            self._bells.give(twin.becoming[1])
            self._channel.send(frames.DIED, twin.becoming[0], json.dumps({"signal": 9, **body}).encode())
        self._catch_up()

    def _ran_out(self, status: int) -> bool:
        """Of a command: where memory ran out beside kernels, and it was not killed, it may have been one of theirs."""
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        return (killed or (status != 0 and not self._kernels)) and self._was_out_of_memory()

    def _was_out_of_memory(self) -> bool:
        if self._group is None:
            return False
        kills = self._group.oom_kills()
        grew = kills > self._oom_kills
        self._oom_kills = kills
        return grew

    def measure(self) -> Dict[str, Dict[str, int]]:
        """Private memory of each kernel and each twin, in bytes."""
        return {
            "kernels": {str(number): _private_bytes(pid) for number, (pid, _) in self._kernels.items()},
            "twins": {str(number): _private_bytes(twin.pid) for number, twin in self._twins.items()},
        }


def _how_it_ended(status: int) -> Dict[str, int]:
    return {"signal": os.WTERMSIG(status)} if os.WIFSIGNALED(status) else {"exitCode": os.WEXITSTATUS(status)}


def _copy(fd: int) -> socket.socket:
    copy = os.dup(fd)
    try:
        return socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise


def _private_bytes(pid: int) -> int:
    try:
        with open("/proc/%d/smaps_rollup" % pid, encoding="ascii") as file:
            lines = (line.split() for line in file if line.startswith("Private_"))
            return sum(int(words[1]) for words in lines) * 1024
    except OSError:
        return 0  # it has ended, or keeps others from looking at it
