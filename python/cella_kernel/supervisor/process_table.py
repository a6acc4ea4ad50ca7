"""The processes of a sandbox that pid 1 knows: kernels, snapshots, programs and the proxy forwarder.

Pid 1 ends them for the host, and reports each exit. Any other process was started by user code, and ends with the kernel
or program that it descends from.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections import deque
from typing import Any, Deque, Dict, List, Optional, Set, Tuple, Union

from .. import protocol
from ..frames import Channel
from ..interrupts import RESEND_S, InterruptSender, InterruptSlot, InterruptSlots
from ..processes import descendants, is_stopped, send_signal
from ..sandbox.cgroup import Group, OwnGroup
from . import user_processes
from .oom import OomCounter
from .snapshots import Snapshot, Snapshots
from .user_processes import Programs, UserProcesses

# How long the exit report of a kernel waits for processes that were killed with it, as they count against the limits.
_REAP_S, _REAP_AGAIN_S = 1.0, 0.0005
# How long `end_all` waits. The host waits longer.
_END_S = 5.0


class ProcessTable:
    """`alone`: whether this is pid 1 of a pid namespace, where all other processes come from kernels and programs."""

    def __init__(self, channel: Channel, group: Union[Group, OwnGroup, None], alone: bool) -> None:
        self._channel = channel
        self._alone = alone
        self._known = KnownProcesses()
        self._user_processes = UserProcesses(self._known, alone)
        self._oom = OomCounter(group)
        # Numbers that were killed before they were known: KILL and the connection of a kernel arrive on different sockets.
        # Most of these kernels have already ended instead. Numbers are never reused.
        self._too_early: Deque[int] = deque(maxlen=1024)
        self._cpu_seconds = 0

    @property
    def forwarder(self) -> Optional[int]:
        return self._known.forwarder

    @forwarder.setter
    def forwarder(self, pid: Optional[int]) -> None:
        self._known.forwarder = pid

    def limit_cpu(self, seconds: int) -> None:
        self._cpu_seconds = seconds

    def watch_memory(self, most_bytes: int) -> None:
        """Watches memory if no control group limits it."""
        if self._alone:
            self._oom.begin_watch(most_bytes)

    def check(self) -> None:
        if self._oom.watch is not None and self._known.programs:
            self._oom.watch.check()
        for _, sender in self._known.kernels.values():
            sender.resend()
        self._known.programs.end_late()

    @property
    def pause_s(self) -> Optional[float]:
        """How long until `check` must be called again; None if nothing needs it."""
        pauses = [RESEND_S] if any(sender.pending for _, sender in self._known.kernels.values()) else []
        if self._oom.watch is not None and self._known.programs:
            pauses.append(self._oom.watch.pause_s)
        if self._known.programs.ending:
            pauses.append(user_processes.CHECK_S)
        return min(pauses) if pauses else None

    def new_interrupt_slot(self) -> InterruptSlot:
        return self._known.slots.take()

    def add_kernel(self, number: int, pid: int, slot: InterruptSlot) -> None:
        self._known.kernels[number] = (pid, InterruptSender(pid, slot))
        self._begin(number)

    def add_program(self, number: int, pid: int) -> None:
        self._known.programs.add(number, pid)
        self._begin(number)

    def _begin(self, number: int) -> None:
        if number in self._too_early:
            self._too_early.remove(number)
            self.kill(number)

    def interrupt(self, number: int, execution: int) -> None:
        if number in self._known.kernels:
            self._known.kernels[number][1].send(execution)

    def registered(self, pid: int, message: Dict[str, int], descriptors: List[int]) -> None:
        """A process of this sandbox has registered. The caller closes the descriptors."""
        ((kind, number),) = message.items()
        if kind == "snapshot":
            self._known.snapshots.add(number, pid, descriptors)
            return
        for slot in self._known.snapshots.became(pid, number):
            self.add_kernel(number, pid, slot)
        self._user_processes.kill_postponed()

    def restore_snapshot(self, snapshot: int, number: int, keep: bool, descriptors: List[int]) -> None:
        """Passes a connection to a snapshot, which becomes a kernel or, with `keep`, forks one."""
        self._known.snapshots.restore(snapshot, number, keep, descriptors)

    def drop_snapshot(self, number: int) -> None:
        """Ends a snapshot."""
        self._known.snapshots.drop(number)

    def kill(self, number: int, gently: bool = False) -> None:
        """Ends a kernel or a program with its descendants; `reap` reports its exit.

        `gently`: sends SIGTERM to a program, which may ignore it.
        """
        if number in self._known.programs:
            self._known.programs.end(number, gently)
        elif number not in self._known.kernels:
            if not self._kill_snapshot_for(number):
                self._too_early.append(number)
        else:
            pid = self._known.kernels[number][0]
            if len(self._known.kernels) == 1:
                self._user_processes.kill({pid})
            else:
                self._user_processes.kill_family(pid)

    def _kill_snapshot_for(self, number: int) -> bool:
        """Kills the snapshot that should become this kernel and has not yet. Returns False if there is none."""
        asked = self._known.snapshots.requested_as(number)
        for snapshot_number, snapshot in asked:
            send_signal(snapshot.pid, signal.SIGKILL)
            self._snapshot_lost(snapshot_number, snapshot)
        return bool(asked)

    def kill_all(self) -> None:
        if self._alone:
            send_signal(-1, signal.SIGKILL)
        else:
            for pid in descendants(os.getpid()):
                send_signal(pid, signal.SIGKILL)

    def end_all(self) -> None:
        """Kills all processes and waits for their end: when pid 1 closes its connection, the host reuses their resources."""
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
        """Returns whether a child had ended, or None if there are no children."""
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
        for number, (own, _) in list(self._known.kernels.items()):
            if own == pid:
                self._died(number, status, cpu_seconds)
        for number, snapshot in self._known.snapshots.items():
            if snapshot.pid == pid:
                self._snapshot_lost(number, snapshot)
        for number in self._known.programs.reaped(pid):
            body = {"outOfMemory": self._ran_out(status), **_exit_fields(status)}
            self._channel.send(protocol.DIED, number, json.dumps(body).encode())
            if self._alone and not self._known.programs and not self._known.kernels:
                # If the program has killed its monitor, its descendants are still running.
                self._user_processes.kill(set())

    def _died(self, number: int, status: int, cpu_seconds: float) -> None:
        _, sender = self._known.kernels.pop(number)
        self._known.slots.release(sender.slot)
        if not self._known.kernels:
            self._user_processes.kill(set())
            if not self._user_processes.postponed:
                self._wait_for_user_processes()
        body: Dict[str, Any] = {"outOfMemory": self._oom.happened(), **_exit_fields(status)}
        # Code that ignores SIGXCPU is killed with SIGKILL at the hard limit.
        if body.get("signal") == signal.SIGKILL and 0 < self._cpu_seconds < cpu_seconds - 1:
            body["signal"] = int(signal.SIGXCPU)
        self._channel.send(protocol.DIED, number, json.dumps(body).encode())

    def _wait_for_user_processes(self) -> None:
        deadline = time.monotonic() + _REAP_S
        while True:
            reaped = self._reap_one()
            if reaped is None:
                return
            if not reaped:
                if self._user_processes.are_gone or time.monotonic() > deadline:
                    return
                time.sleep(_REAP_AGAIN_S)

    def _snapshot_lost(self, number: int, snapshot: Snapshot) -> None:
        self._known.snapshots.forget(number)
        body = {"outOfMemory": self._oom.happened()}
        self._channel.send(protocol.SNAPSHOT_LOST, number, json.dumps(body).encode())
        if snapshot.becoming is not None:
            self._known.slots.release(snapshot.becoming[1])
            self._channel.send(protocol.DIED, snapshot.becoming[0], json.dumps({"signal": 9, **body}).encode())
        self._user_processes.kill_postponed()

    def _ran_out(self, status: int) -> bool:
        """Whether a program ended because memory ran out. If kernels run, only a killed program counts."""
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        return (killed or (status != 0 and not self._known.kernels)) and self._oom.happened()

    def measure(self) -> Dict[str, Union[Dict[str, int], List[int]]]:
        """Private memory of each kernel and each snapshot, in bytes, and the kernels that are stopped or traced."""
        kernels, snapshots = self._known.kernels.items(), self._known.snapshots.items()
        return {
            "kernels": {str(number): _private_bytes(pid) for number, (pid, _) in kernels},
            "snapshots": {str(number): _private_bytes(snapshot.pid) for number, snapshot in snapshots},
            "stopped": [number for number, (pid, _) in kernels if is_stopped(pid)],
        }


def _exit_fields(status: int) -> Dict[str, int]:
    return {"signal": os.WTERMSIG(status)} if os.WIFSIGNALED(status) else {"code": os.WEXITSTATUS(status)}


def _private_bytes(pid: int) -> int:
    try:
        with open("/proc/%d/smaps_rollup" % pid, encoding="ascii") as file:
            lines = (line.split() for line in file if line.startswith("Private_"))
            return sum(int(words[1]) for words in lines) * 1024
    except OSError:
        return 0  # it has ended, or its memory cannot be read


class KnownProcesses:
    def __init__(self) -> None:
        self.slots = InterruptSlots()
        self.kernels: Dict[int, Tuple[int, InterruptSender]] = {}
        self.snapshots = Snapshots(self.slots)
        self.programs = Programs()
        # The process that forwards connections to the host's proxy, if one runs.
        self.forwarder: Optional[int] = None

    @property
    def pids(self) -> Set[int]:
        forwarder = set() if self.forwarder is None else {self.forwarder}
        return self.programs.pids | self.snapshots.pids | {pid for pid, _ in self.kernels.values()} | forwarder

    @property
    def with_descendants(self) -> Set[int]:
        """With the descendants of programs, which end only when the host says so."""
        return self.pids | self.programs.families
