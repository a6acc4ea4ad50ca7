"""Starts a program for the host in the sandbox (argv, environment, three descriptors, never a shell line) and feeds its stdin.

No input frame is read before the program has room for the last one: a program that does not read stops the host.
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

# Ignored or handled by our own processes; the program and its children would inherit that.
_SIGNALS = ("SIGTERM", "SIGPIPE", "SIGXFSZ", "SIGINT", "SIGQUIT", "SIGHUP", "SIGCHLD", "SIGTSTP", "SIGTTIN", "SIGTTOU")
# What a terminal runs by default: the first one that exists.
_SHELLS = (["bash"], ["sh"])


class Stop(Exception):
    """The host wants it to end."""


def start(command: Dict[str, Any], streams: Sequence[int], terminal: bool = False) -> int:
    """Gives its pid. `terminal`: the first stream is a terminal, and becomes the one that its signals come from."""
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
    """Runs the program to its end, ends what it has left, and gives how it ended, as a wait status."""
    # Before the program is there: its end is not missed.
    wake = child_signal_pipe()
    reader, writer = os.pipe()
    pid = start(command, (reader, out, err))
    for fd in (reader, out, err):
        os.close(fd)
    feeder = _StdinRelay(Channel(connection), writer, wake)
    while True:
        feeder.turn()
        status = _reap(pid)
        if status is not None:
            end_descendants()
            return status


class _StdinRelay:
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
            # The host has closed its side: pid 1 ends the program.
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
            # Input for a program that no longer reads is read and dropped, so that the host need not wait.
            if kind == protocol.TYPED and self._pipe is not None:
                self._held = payload
            elif kind == protocol.ENDED:
                self._end()

    def _feed(self, pipe: int) -> None:
        try:
            self._held = self._held[os.write(pipe, self._held) :]
        except BlockingIOError:
            pass  # it reads the rest later
        except OSError:
            self._end()  # nobody reads it

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
