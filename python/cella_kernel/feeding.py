"""The input of a program that the host feeds: frames on its connection, written into the program's pipe.

No frame is read before the program has room for what the last one held: a program that does not read stops the host.
"""

from __future__ import annotations

import os
import select
from typing import Any, Dict, Optional

from . import frames, programs
from .frames import Channel
from .processes import end_descendants, hear_children


def serve(connection: int, out: int, err: int, command: Dict[str, Any]) -> int:
    """Runs the program to its end, ends what it has left, and gives how it ended, as a wait status."""
    # Before the program is there: its end is not missed.
    wake = hear_children()
    reader, writer = os.pipe()
    pid = programs.start(command, (reader, out, err))
    for fd in (reader, out, err):
        os.close(fd)
    feeder = _Feeder(Channel(connection), writer, wake)
    while True:
        feeder.turn()
        status = _reap(pid)
        if status is not None:
            end_descendants()
            return status


class _Feeder:
    def __init__(self, channel: Channel, pipe: int, wake: int) -> None:
        self._channel = channel
        self._pipe: Optional[int] = pipe
        self._wake = wake
        self._held = b""
        self._listening = True
        os.set_blocking(pipe, False)

    def turn(self) -> None:
        self._heed()
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        if self._held and self._pipe is not None:
            poll.register(self._pipe, select.POLLOUT)
        elif self._listening:
            poll.register(self._channel.fd, select.POLLIN)
        ready = {fd for fd, _ in poll.poll()}
        if self._wake in ready:
            os.read(self._wake, 4096)
        if self._channel.fd in ready and not self._channel.fill():
            # The host says no more: whoever ends the program is pid 1.
            self._listening = False
            self._end()
        if self._pipe in ready:
            self._feed(self._pipe)

    def _heed(self) -> None:
        while not self._held:
            frame = self._channel.take()
            if frame is None:
                return
            kind, _, payload = frame
            # What comes for a program that reads no more is heard, so that the host need not wait, and dropped.
            if kind == frames.TYPED and self._pipe is not None:
                self._held = payload
            elif kind == frames.ENDED:
                self._end()

    def _feed(self, pipe: int) -> None:
        try:
            self._held = self._held[os.write(pipe, self._held) :]
        except BlockingIOError:
            pass  # it reads the rest later
        except OSError:
            self._end()  # nobody is there to read it

    def _end(self) -> None:
        self._held = b""
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None


def _reap(pid: int) -> Optional[int]:
    """How the program ended, if it has. Orphans that it has left may end before it."""
    while True:
        ended, status = os.waitpid(-1, os.WNOHANG)
        if ended == pid:
            return status
        if ended == 0:
            return None
