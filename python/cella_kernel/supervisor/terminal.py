"""A terminal in the sandbox: a program on a PTY of its own, and the relay between it and the host.

What the host types comes as frames on the connection, what the program shows goes out by the pipe. Neither is read
while the other side has no room for it: a side that does not read stops the other, and no buffer grows.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import select
import struct
import termios
import time
from typing import Any, Dict, Optional

from .. import protocol
from ..frames import Channel
from ..processes import end_descendants, child_signal_pipe
from . import program
from .program import Stop

# What is on its way to the host, in the relay and in the pipe: a person who stops a flood does not see it go on for long.
_MOST_SHOWN = 1 << 16
# How long those that the terminal is taken away from have to save what they hold.
_HANG_UP_S, _LOOK_AGAIN_S = 0.1, 0.005
# Input is UTF-8: erasing takes away a character, not a byte. The module has no name for it.
_IUTF8 = 0x4000


def serve(connection: int, out: int, command: Dict[str, Any]) -> int:
    """Runs the program to its end, ends what it has left, and gives how it ended, as a wait status."""
    master, slave = os.openpty()
    settings = termios.tcgetattr(slave)
    settings[0] |= _IUTF8
    termios.tcsetattr(slave, termios.TCSANOW, settings)
    _resize(master, command["terminal"])
    relay = _Relay(Channel(connection), master, slave, out)
    pid = program.start(command, (slave, slave, slave), terminal=True)
    try:
        return relay.run(pid)
    except Stop:
        # Programs on this terminal get a SIGHUP.
        os.close(master)
        _wait_for_children()
        raise


class _Relay:
    """Holds the slave until the program has ended: a terminal that no process has open for a short time is not gone."""

    def __init__(self, channel: Channel, master: int, slave: int, out: int) -> None:
        self._channel = channel
        self._master = master
        self._slave = slave
        self._out = out
        self._typed = b""
        self._shown = b""
        self._open = True
        self._ended: Optional[int] = None
        for fd in (master, out):
            os.set_blocking(fd, False)
        try:
            fcntl.fcntl(out, getattr(fcntl, "F_SETPIPE_SZ", 1031), _MOST_SHOWN)
        except OSError:
            pass  # it is wider than it need be
        # Before the program is there: its end is not missed.
        self._wake = child_signal_pipe()

    def run(self, pid: int) -> int:
        while self._ended is None:
            self._turn()
            self._reap(pid)
        end_descendants()
        os.close(self._slave)
        while self._open or self._shown:
            self._turn()
        return self._ended

    def _turn(self) -> None:
        self._heed()
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        if not self._typed:
            poll.register(self._channel.fd, select.POLLIN)
        wanted = (0 if self._shown or not self._open else select.POLLIN) | (select.POLLOUT if self._typed else 0)
        if wanted:
            poll.register(self._master, wanted)
        if self._shown:
            poll.register(self._out, select.POLLOUT)
        ready = {fd for fd, _ in poll.poll()}
        if self._wake in ready:
            os.read(self._wake, 4096)
        if self._channel.fd in ready and not self._channel.fill():
            raise Stop
        if self._master in ready and self._typed:
            self._type()
        if self._master in ready and not self._shown and self._open:
            self._shown = self._look()
        if self._shown:
            self._show()

    def _heed(self) -> None:
        """What the host has said so far, up to what the program must take first."""
        while not self._typed:
            frame = self._channel.take()
            if frame is None:
                return
            kind, _, payload = frame
            if kind == protocol.TYPED and self._ended is None:
                self._typed = payload
            elif kind == protocol.RESIZE:
                _resize(self._master, json.loads(payload))

    def _type(self) -> None:
        try:
            self._typed = self._typed[os.write(self._master, self._typed) :]
        except BlockingIOError:
            pass  # it reads the rest later
        except OSError:
            self._typed = b""  # nobody reads it

    def _look(self) -> bytes:
        """What the program has shown. At its end the terminal gives an error instead."""
        parts = []
        size = 0
        while size < _MOST_SHOWN:
            try:
                data = os.read(self._master, _MOST_SHOWN - size)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                data = b""
            if not data:
                self._open = False
                break
            parts.append(data)
            size += len(data)
        return b"".join(parts)

    def _show(self) -> None:
        try:
            self._shown = self._shown[os.write(self._out, self._shown) :]
        except BlockingIOError:
            pass  # the host reads the rest later
        except OSError:
            raise Stop from None  # it does not want the rest

    def _reap(self, pid: int) -> None:
        try:
            while True:
                ended, status = os.waitpid(-1, os.WNOHANG)
                if ended == pid:
                    self._ended = status
                    self._typed = b""
                if ended == 0:
                    return
        except ChildProcessError:
            return  # none is left


def _resize(master: int, size: Dict[str, int]) -> None:
    """The program on the terminal gets a SIGWINCH."""
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", size["rows"], size["cols"], 0, 0))


def _wait_for_children() -> None:
    deadline = time.monotonic() + _HANG_UP_S
    try:
        while time.monotonic() < deadline:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(_LOOK_AGAIN_S)
    except ChildProcessError:
        pass  # none is left
