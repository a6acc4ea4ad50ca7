"""The frozen forks ("twins") of a sandbox, as pid 1 keeps them: how each is reached, and which kernel it was asked to be."""

from __future__ import annotations

import array
import json
import os
import signal
import socket
from typing import Dict, List, Optional, Set, Tuple

from . import handoff
from .doorbell import Doorbell, Doorbells
from .processes import send_signal
from .sandbox.linux import LayerError

_MOST_TWINS = 128


class Twin:
    __slots__ = ("pid", "way", "becoming")

    def __init__(self, pid: int, way: socket.socket) -> None:
        self.pid = pid
        self.way = way
        # The kernel that it was asked to be, until it is, and the doorbell of that.
        self.becoming: Optional[Tuple[int, Doorbell]] = None


class Twins:
    def __init__(self, bells: Doorbells) -> None:
        self._bells = bells
        self._twins: Dict[int, Twin] = {}

    @property
    def pids(self) -> Set[int]:
        return {twin.pid for twin in self._twins.values()}

    @property
    def waking(self) -> bool:
        """Whether a twin is about to be a kernel, or to fork one: nobody knows that process before it tells."""
        return any(twin.becoming is not None for twin in self._twins.values())

    def items(self) -> List[Tuple[int, Twin]]:
        return list(self._twins.items())

    def add(self, number: int, pid: int, descriptors: List[int]) -> None:
        """The descriptors stay the caller's: what is kept, is copied."""
        if number in self._twins or len(self._twins) >= _MOST_TWINS:
            send_signal(pid, signal.SIGKILL)
            return
        way = _copy(descriptors[0])
        with _copy(descriptors[1]) as kernel:
            # From here on the host may ask for it.
            kernel.send(b"+", socket.MSG_DONTWAIT)
        self._twins[number] = Twin(pid, way)

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

    def became(self, pid: int, number: int) -> List[Doorbell]:
        """One of them, or a fork of one that stays, is this kernel from here on: its doorbell, where it was asked to be."""
        bells: List[Doorbell] = []
        for twin_number, twin in self.asked_to_be(number):
            if twin.becoming is not None:
                bells.append(twin.becoming[1])
            twin.becoming = None
            if twin.pid == pid:
                self.forget(twin_number)
        return bells

    def asked_to_be(self, number: int) -> List[Tuple[int, Twin]]:
        """Those that were to become this kernel, and have not."""
        return [(own, twin) for own, twin in self.items() if twin.becoming is not None and twin.becoming[0] == number]

    def drop(self, number: int) -> None:
        twin = self._twins.get(number)
        if twin is not None:
            self.forget(number)
            send_signal(twin.pid, signal.SIGKILL)

    def forget(self, number: int) -> None:
        self._twins.pop(number).way.close()


def _copy(fd: int) -> socket.socket:
    copy = os.dup(fd)
    try:
        return socket.socket(fileno=copy)
    except OSError:
        os.close(copy)
        raise
