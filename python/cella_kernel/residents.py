"""What pid 1 does for those who live in a sandbox: they come and end as the host wishes, and it is told of each death.

Processes that are none of them were started by the code, and end with the kernel or the command that they came from.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections import deque
from typing import Any, Deque, Dict, List, Optional, Union

from . import commands, frames
from .doorbell import Doorbell
from .frames import Channel
from .frozen import Twin
from .processes import descendants, send_signal
from .register import Register
from .ringing import AGAIN_S, Ringer
from .sandbox.cgroup import Group, OwnGroup
from .shortage import Shortage
from .strangers import Strangers

# How long the death of a kernel waits for the processes that were killed with it: they count against the limits.
_REAP_S, _REAP_AGAIN_S = 1.0, 0.0005
# And how long the end of everything waits: the host waits for longer.
_END_S = 5.0


class Residents:
    """`alone`: this is pid 1 of a pid namespace, where everything else came from a kernel."""

    def __init__(self, channel: Channel, group: Union[Group, OwnGroup, None], alone: bool) -> None:
        self._channel = channel
        self._alone = alone
        self._register = Register()
        self._strangers = Strangers(self._register, alone)
        self._shortage = Shortage(group)
        # The host may want one to end before it has come here: its connection takes another way than this wish. Most of
        # these have ended instead; numbers are never used again.
        self._too_early: Deque[int] = deque(maxlen=1024)
        self._cpu_seconds = 0

    @property
    def forwarder(self) -> Optional[int]:
        return self._register.forwarder

    @forwarder.setter
    def forwarder(self, pid: Optional[int]) -> None:
        self._register.forwarder = pid

    def limit_cpu(self, seconds: int) -> None:
        self._cpu_seconds = seconds

    def watch_memory(self, most_bytes: int) -> None:
        """Where nobody else counts it."""
        if self._alone:
            self._shortage.begin_watch(most_bytes)

    def look_around(self) -> None:
        if self._shortage.watch is not None and self._register.commands:
            self._shortage.watch.look()
        for _, ringer in self._register.kernels.values():
            ringer.again()
        self._register.commands.end_late()

    @property
    def pause_s(self) -> Optional[float]:
        """How long until somebody must `look_around` again; None where nothing is to be looked at."""
        pauses = [AGAIN_S] if any(ringer.ringing for _, ringer in self._register.kernels.values()) else []
        if self._shortage.watch is not None and self._register.commands:
            pauses.append(self._shortage.watch.pause_s)
        if self._register.commands.ending:
            pauses.append(commands.LOOK_S)
        return min(pauses) if pauses else None

    def new_bell(self) -> Doorbell:
        return self._register.bells.take()

    def add_kernel(self, number: int, pid: int, bell: Doorbell) -> None:
        self._register.kernels[number] = (pid, Ringer(pid, bell))
        self._begin(number)

    def add_command(self, number: int, pid: int) -> None:
        self._register.commands.add(number, pid)
        self._begin(number)

    def _begin(self, number: int) -> None:
        if number in self._too_early:
            self._too_early.remove(number)
            self.kill(number)

    def interrupt(self, number: int, execution: int) -> None:
        if number in self._register.kernels:
            self._register.kernels[number][1].ring(execution)

    def told(self, pid: int, word: Dict[str, int], descriptors: List[int]) -> None:
        """A process of this sandbox says what it is. The descriptors stay the caller's."""
        ((kind, number),) = word.items()
        if kind == "twin":
            self._register.twins.add(number, pid, descriptors)
            return
        for bell in self._register.twins.became(pid, number):
            self.add_kernel(number, pid, bell)
        self._strangers.catch_up()

    def revive(self, twin: int, number: int, keep: bool, descriptors: List[int]) -> None:
        """Hands a connection to a twin, which becomes a kernel, or forks one where it is kept."""
        self._register.twins.revive(twin, number, keep, descriptors)

    def drop(self, number: int) -> None:
        """Ends a twin."""
        self._register.twins.drop(number)

    def kill(self, number: int, gently: bool = False) -> None:
        """Ends a kernel or a command and what came from it; its death is told by `reap`.

        `gently`: a command is asked to end, and may go on.
        """
        if number in self._register.commands:
            self._register.commands.end(number, gently)
        elif number not in self._register.kernels:
            if not self._give_up(number):
                self._too_early.append(number)
        else:
            pid = self._register.kernels[number][0]
            if len(self._register.kernels) == 1:
                self._strangers.kill({pid})
            else:
                self._strangers.kill_family(pid)

    def _give_up(self, number: int) -> bool:
        """A twin was to become this kernel, and has not: it is not waited for any more. False where none was."""
        asked = self._register.twins.asked_to_be(number)
        for twin_number, twin in asked:
            send_signal(twin.pid, signal.SIGKILL)
            self._lost(twin_number, twin)
        return bool(asked)

    def kill_all(self) -> None:
        if self._alone:
            send_signal(-1, signal.SIGKILL)
        else:
            for pid in descendants(os.getpid()):
                send_signal(pid, signal.SIGKILL)

    def end_all(self) -> None:
        """Kills everything, and waits until it is gone: the host gives its place to another kernel when pid 1 lets go."""
        self.kill_all()
        deadline = time.monotonic() + _END_S
        while time.monotonic() < deadline:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                time.sleep(_REAP_AGAIN_S)

    def reap(self) -> None:
        while self._reap_one():
            pass

    def _reap_one(self) -> Optional[bool]:
        """False where none has ended, None where there is none."""
        try:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return None
        if pid:
            self._reaped(pid, status, usage.ru_utime + usage.ru_stime)
        return bool(pid)

    def _reaped(self, pid: int, status: int, cpu_seconds: float) -> None:
        if pid == self.forwarder:
            self.forwarder = None
        for number, (own, _) in list(self._register.kernels.items()):
            if own == pid:
                self._died(number, status, cpu_seconds)
        for number, twin in self._register.twins.items():
            if twin.pid == pid:
                self._lost(number, twin)
        for number in self._register.commands.reaped(pid):
            body = {"outOfMemory": self._ran_out(status), **_how_it_ended(status)}
            self._channel.send(frames.DIED, number, json.dumps(body).encode())
            if self._alone and not self._register.commands and not self._register.kernels:
                # It may have killed whoever stood over it: what it has left is nobody's.
                self._strangers.kill(set())

    def _died(self, number: int, status: int, cpu_seconds: float) -> None:
        _, ringer = self._register.kernels.pop(number)
        self._register.bells.give(ringer.bell)
        if not self._register.kernels:
            self._strangers.kill(set())
            if not self._strangers.put_off:
                self._wait_for_strangers()
        body: Dict[str, Any] = {"outOfMemory": self._shortage.came(), **_how_it_ended(status)}
        # Code that ignores SIGXCPU meets the hard limit, which kills without a word.
        if body.get("signal") == signal.SIGKILL and 0 < self._cpu_seconds < cpu_seconds - 1:
            body["signal"] = int(signal.SIGXCPU)
        self._channel.send(frames.DIED, number, json.dumps(body).encode())

    def _wait_for_strangers(self) -> None:
        deadline = time.monotonic() + _REAP_S
        while True:
            one = self._reap_one()
            if one is None:
                return
            if not one:
                if self._strangers.are_gone or time.monotonic() > deadline:
                    return
                time.sleep(_REAP_AGAIN_S)

    def _lost(self, number: int, twin: Twin) -> None:
        self._register.twins.forget(number)
        body = {"outOfMemory": self._shortage.came()}
        self._channel.send(frames.GONE, number, json.dumps(body).encode())
        if twin.becoming is not None:
            self._register.bells.give(twin.becoming[1])
            self._channel.send(frames.DIED, twin.becoming[0], json.dumps({"signal": 9, **body}).encode())
        self._strangers.catch_up()

    def _ran_out(self, status: int) -> bool:
        """Of a command: where memory ran out beside kernels, and it was not killed, it may have been one of theirs."""
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        return (killed or (status != 0 and not self._register.kernels)) and self._shortage.came()

    def measure(self) -> Dict[str, Dict[str, int]]:
        """Private memory of each kernel and each twin, in bytes."""
        kernels, twins = self._register.kernels.items(), self._register.twins.items()
        return {
            "kernels": {str(number): _private_bytes(pid) for number, (pid, _) in kernels},
            "twins": {str(number): _private_bytes(twin.pid) for number, twin in twins},
        }


def _how_it_ended(status: int) -> Dict[str, int]:
    return {"signal": os.WTERMSIG(status)} if os.WIFSIGNALED(status) else {"exitCode": os.WEXITSTATUS(status)}


def _private_bytes(pid: int) -> int:
    try:
        with open("/proc/%d/smaps_rollup" % pid, encoding="ascii") as file:
            lines = (line.split() for line in file if line.startswith("Private_"))
            return sum(int(words[1]) for words in lines) * 1024
    except OSError:
        return 0  # it has ended, or keeps others from looking at it
