"""A terminal in the sandbox: a program on its own PTY, and the relay between the PTY and the host.

Input comes from the host as frames on the connection; output goes to the host through the pipe. The relay reads from one
side only if the other has room: if one side does not read, the other waits, and no buffer grows.
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

# The most output in the relay and in the pipe. Little, so that a user who stops a flood of output soon sees it stop.
_MOST_OUTPUT = 1 << 16
# How long programs have after SIGHUP to save their data.
_HANG_UP_S, _CHECK_S = 0.1, 0.005
# The flag of the terminal for UTF-8: erasing removes a character and not a byte. The module has no name for it.
_IUTF8 = 0x4000


def serve(connection: int, out: int, command: Dict[str, Any]) -> int:
    """Runs the program, then ends its remaining descendants. Returns its wait status."""
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
        # Closing it sends SIGHUP to the programs on this terminal.
        os.close(master)
        _wait_for_children()
        raise


class _Relay:
    """Keeps the slave open until the program has ended: otherwise the terminal would hang up if no process had it open."""

    def __init__(self, channel: Channel, master: int, slave: int, out: int) -> None:
        self._channel = channel
        self._master = master
        self._slave = slave
        self._out = out
        self._input = b""
        self._output = b""
        self._open = True
        self._ended: Optional[int] = None
        for fd in (master, out):
            os.set_blocking(fd, False)
        try:
            fcntl.fcntl(out, getattr(fcntl, "F_SETPIPE_SZ", 1031), _MOST_OUTPUT)
        except OSError:
            pass  # the pipe stays larger
        # Before the program starts, so that its end is not missed.
        self._wake = child_signal_pipe()

    def run(self, pid: int) -> int:
        while self._ended is None:
            self._run_once()
            self._reap(pid)
        end_descendants()
        os.close(self._slave)
        while self._open or self._output:
            self._run_once()
        return self._ended

    def _run_once(self) -> None:
        self._handle_frames()
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        if not self._input:
            poll.register(self._channel.fd, select.POLLIN)
        wanted = (0 if self._output or not self._open else select.POLLIN) | (select.POLLOUT if self._input else 0)
        if wanted:
            poll.register(self._master, wanted)
        if self._output:
            poll.register(self._out, select.POLLOUT)
        ready = {fd for fd, _ in poll.poll()}
        if self._wake in ready:
            os.read(self._wake, 4096)
        if self._channel.fd in ready and not self._channel.fill():
            raise Stop
        if self._master in ready and self._input:
            self._write_input()
        if self._master in ready and not self._output and self._open:
            self._output = self._read_output()
        if self._output:
            self._write_output()

    def _handle_frames(self) -> None:
        """Handles frames until there is input that the program must take first."""
        while not self._input:
            frame = self._channel.take()
            if frame is None:
                return
            kind, _, payload = frame
            if kind == protocol.TYPED and self._ended is None:
                self._input = payload
            elif kind == protocol.RESIZE:
                _resize(self._master, json.loads(payload))

    def _write_input(self) -> None:
        try:
            self._input = self._input[os.write(self._master, self._input) :]
        except BlockingIOError:
            pass  # the terminal has no room
        except OSError:
            self._input = b""  # nobody reads it

    def _read_output(self) -> bytes:
        """What the program has printed. At the end, reading the terminal fails with EIO."""
        parts = []
        size = 0
        while size < _MOST_OUTPUT:
            try:
                data = os.read(self._master, _MOST_OUTPUT - size)
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

    def _write_output(self) -> None:
        try:
            self._output = self._output[os.write(self._out, self._output) :]
        except BlockingIOError:
            pass  # the pipe is full
        except OSError:
            raise Stop from None  # the host has closed the pipe

    def _reap(self, pid: int) -> None:
        try:
            while True:
                ended, status = os.waitpid(-1, os.WNOHANG)
                if ended == pid:
                    self._ended = status
                    self._input = b""
                if ended == 0:
                    return
        except ChildProcessError:
            return  # none is left


def _resize(master: int, size: Dict[str, int]) -> None:
    """Sets the size; the program gets SIGWINCH."""
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", size["rows"], size["cols"], 0, 0))


def _wait_for_children() -> None:
    deadline = time.monotonic() + _HANG_UP_S
    try:
        while time.monotonic() < deadline:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(_CHECK_S)
    except ChildProcessError:
        pass  # none is left
