"""Pid 1's list of snapshots (frozen forks of kernels): the socket to each, and the kernel that it becomes."""

from __future__ import annotations

import array
import json
import os
import signal
import socket
from typing import Dict, List, Optional, Set, Tuple

from .. import fd_passing
from ..interrupts import InterruptSlot, InterruptSlots
from ..processes import send_signal
from ..protocol import MOST_SNAPSHOTS
from ..sandbox.linux import LayerError


class Snapshot:
    __slots__ = ("pid", "connection", "becoming")

    def __init__(self, pid: int, connection: socket.socket) -> None:
        self.pid = pid
        self.connection = connection
        # The kernel that it should become, with its interrupt slot, until it has become it.
        self.becoming: Optional[Tuple[int, InterruptSlot]] = None


class Snapshots:
    def __init__(self, slots: InterruptSlots) -> None:
        self._slots = slots
        self._snapshots: Dict[int, Snapshot] = {}

    @property
    def pids(self) -> Set[int]:
        return {snapshot.pid for snapshot in self._snapshots.values()}

    @property
    def restoring(self) -> bool:
        """Whether a snapshot is becoming a kernel or forking one. That process is unknown until it registers."""
        return any(snapshot.becoming is not None for snapshot in self._snapshots.values())

    def items(self) -> List[Tuple[int, Snapshot]]:
        return list(self._snapshots.items())

    def add(self, number: int, pid: int, descriptors: List[int]) -> None:
        """Copies the descriptors; the caller closes its own."""
        if number in self._snapshots or len(self._snapshots) >= MOST_SNAPSHOTS:
            send_signal(pid, signal.SIGKILL)
            return
        connection = _copy(descriptors[0])
        with _copy(descriptors[1]) as kernel:
            # Confirms to the kernel that the snapshot can be restored.
            kernel.send(b"+", socket.MSG_DONTWAIT)
        self._snapshots[number] = Snapshot(pid, connection)

    def restore(self, snapshot_number: int, number: int, keep: bool, descriptors: List[int]) -> None:
        """Passes a connection to a snapshot, which becomes a kernel or, with `keep`, forks one."""
        snapshot = self._snapshots.get(snapshot_number)
        if snapshot is None:
            raise LayerError("snapshot", "the snapshot is gone")
        if snapshot.becoming is not None:
            self._slots.release(snapshot.becoming[1])
        slot = self._slots.take()
        snapshot.becoming = (number, slot)
        message = fd_passing.KERNEL + json.dumps({"kernel": number, "keep": keep, "slot": slot.number}).encode() + b"\n"
        try:
            # Without waiting, as user code may hold both ends.
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))]
            sent = snapshot.connection.sendmsg([message], rights, socket.MSG_DONTWAIT)
        except OSError:
            sent = 0
        if sent < len(message):
            self._slots.release(slot)
            snapshot.becoming = None
            raise LayerError("snapshot", "the snapshot does not answer")

    def became(self, pid: int, number: int) -> List[InterruptSlot]:
        """A snapshot, or a fork of one that stays, has become this kernel. Returns its interrupt slot if that was requested."""
        slots: List[InterruptSlot] = []
        for snapshot_number, snapshot in self.requested_as(number):
            if snapshot.becoming is not None:
                slots.append(snapshot.becoming[1])
            snapshot.becoming = None
            if snapshot.pid == pid:
                self.forget(snapshot_number)
        return slots

    def requested_as(self, number: int) -> List[Tuple[int, Snapshot]]:
        """The snapshots that should become this kernel and have not yet."""
        return [(own, snapshot) for own, snapshot in self.items() if snapshot.becoming is not None and snapshot.becoming[0] == number]

    def drop(self, number: int) -> None:
        snapshot = self._snapshots.get(number)
        if snapshot is not None:
            self.forget(number)
            send_signal(snapshot.pid, signal.SIGKILL)

    def forget(self, number: int) -> None:
        self._snapshots.pop(number).connection.close()


def _copy(fd: int) -> socket.socket:
    copy = os.dup(fd)
    try:
        return socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise
