"""Connections that were told why nothing comes of them, and that wait for the host to hang up."""

from __future__ import annotations

import os
import select
from typing import Callable, Set

from .frames import Channel

Fail = Callable[[Channel, BaseException], None]


class Refusals:
    """The host hangs up, not we: a write of its own to a closed connection would make it miss the reason."""

    def __init__(self, poll: "select.poll", fail: Fail) -> None:
        self.waiting: Set[int] = set()
        self._poll = poll
        self._fail = fail

    def refuse(self, channel: Channel, error: BaseException) -> None:
        try:
            self._fail(channel, error)
        except OSError:
            os.close(channel.fd)  # it has let go already; every other connection goes on
            return
        self.waiting.add(channel.fd)
        self._poll.register(channel.fd, select.POLLIN)

    def hear(self, fd: int) -> None:
        """What it still says is nothing to us; its end is the end."""
        try:
            if os.read(fd, 65536):
                return
        except OSError:
            pass  # broken off is let go as well
        self._poll.unregister(fd)
        self.waiting.discard(fd)
        os.close(fd)
