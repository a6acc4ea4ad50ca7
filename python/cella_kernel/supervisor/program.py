"""Starts a program for the host (an argv, never a shell command line) and writes to its stdin what the host sends.

It reads an input frame only when the program has taken the one before. If a program does not read, the host waits.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import termios
from typing import Any, Dict, List, Optional, Sequence

from .. import packages, protocol
from ..frames import Channel
from ..processes import close_others, end_descendants, child_signal_pipe

# Cella's processes ignore or handle these signals. The program must not inherit that.
_SIGNALS = ("SIGTERM", "SIGPIPE", "SIGXFSZ", "SIGINT", "SIGQUIT", "SIGHUP", "SIGCHLD", "SIGTSTP", "SIGTTIN", "SIGTTOU")
# A terminal without a command runs the first of these that exists.
_SHELLS = (["bash"], ["sh"])


class Stop(Exception):
    """The host wants the program to end."""


def start(command: Dict[str, Any], streams: Sequence[int], terminal: bool = False) -> int:
    """Starts the program and returns its pid. `terminal`: the streams are a terminal, which becomes its controlling one."""
    env = {**os.environ, **packages.variables(command.get("packages")), **command["env"]}
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            for name in _SIGNALS:
                signal.signal(getattr(signal, name), signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, [])
            os.setsid()
            for number, fd in enumerate(streams):
                os.dup2(fd, number)
            if terminal:
                fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            close_others([writer])
            _exec_first([command["argv"]] if command["argv"] else _SHELLS, env)
        except BaseException as error:
            os.write(writer, (getattr(error, "strerror", None) or str(error)).encode("utf-8", "replace"))
        finally:
            os._exit(protocol.EXIT_NOT_STARTED)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        problem = pipe.read()
    if problem:
        raise OSError(problem.decode())
    return pid


def _exec_first(choices: Sequence[List[str]], env: Dict[str, str]) -> None:
    for argv in choices[:-1]:
        try:
            os.execvpe(argv[0], argv, env)
        except FileNotFoundError:
            continue
    os.execvpe(choices[-1][0], choices[-1], env)


def run_with_stdin(connection: int, out: int, err: int, command: Dict[str, Any]) -> int:
    """Runs the program, then ends its remaining descendants. Returns its wait status."""
    # Before the program starts, so that its end is not missed.
    wake = child_signal_pipe()
    reader, writer = os.pipe()
    pid = start(command, (reader, out, err))
    for fd in (reader, out, err):
        os.close(fd)
    relay = _StdinRelay(Channel(connection), writer, wake)
    while True:
        relay.run_once()
        status = _reap(pid)
        if status is not None:
            end_descendants()
            return status


class _StdinRelay:
    def __init__(self, channel: Channel, pipe: int, wake: int) -> None:
        self._channel = channel
        self._pipe: Optional[int] = pipe
        self._wake = wake
        self._unwritten = b""
        self._listening = True
        os.set_blocking(pipe, False)

    def run_once(self) -> None:
        """Waits until something can be done, and does it."""
        self._handle_frames()
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        if self._unwritten and self._pipe is not None:
            poll.register(self._pipe, select.POLLOUT)
        elif self._listening:
            poll.register(self._channel.fd, select.POLLIN)
        ready = {fd for fd, _ in poll.poll()}
        if self._wake in ready:
            os.read(self._wake, 4096)
        if self._channel.fd in ready and not self._channel.fill():
            # The host has closed the connection: pid 1 ends the program.
            self._listening = False
            self._close_pipe()
        if self._pipe in ready:
            self._write(self._pipe)

    def _handle_frames(self) -> None:
        while not self._unwritten:
            frame = self._channel.take()
            if frame is None:
                return
            kind, _, payload = frame
            # If the program no longer reads, its input is dropped, so that the host does not wait.
            if kind == protocol.TYPED and self._pipe is not None:
                self._unwritten = payload
            elif kind == protocol.ENDED:
                self._close_pipe()

    def _write(self, pipe: int) -> None:
        try:
            self._unwritten = self._unwritten[os.write(pipe, self._unwritten) :]
        except BlockingIOError:
            pass  # the pipe is full
        except OSError:
            self._close_pipe()  # nobody reads it

    def _close_pipe(self) -> None:
        self._unwritten = b""
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None


def _reap(pid: int) -> Optional[int]:
    """The wait status of the program, or None if it runs. Also reaps orphans that it has left."""
    while True:
        ended, status = os.waitpid(-1, os.WNOHANG)
        if ended == pid:
            return status
        if ended == 0:
            return None
