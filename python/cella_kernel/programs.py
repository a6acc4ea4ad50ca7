"""Starts a program for the host in the sandbox: its argv, its environment, its three descriptors. Never a shell line."""

from __future__ import annotations

import fcntl
import os
import signal
import termios
from typing import Any, Dict, List, Sequence

from . import packages
from .processes import close_others

# Ignored or handled by those that the program comes from; whatever it starts would inherit that.
_SIGNALS = ("SIGTERM", "SIGPIPE", "SIGXFSZ", "SIGINT", "SIGQUIT", "SIGHUP", "SIGCHLD", "SIGTSTP", "SIGTTIN", "SIGTTOU")
# What a terminal runs where nobody says: the first that there is.
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
            _become([command["argv"]] if command["argv"] else _SHELLS, env)
        except BaseException as error:
            os.write(writer, (getattr(error, "strerror", None) or str(error)).encode("utf-8", "replace"))
        finally:
            os._exit(127)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        problem = pipe.read()
    if problem:
        raise OSError(problem.decode())
    return pid


def _become(choices: Sequence[List[str]], env: Dict[str, str]) -> None:
    for argv in choices[:-1]:
        try:
            os.execvpe(argv[0], argv, env)
        except FileNotFoundError:
            continue
    os.execvpe(choices[-1][0], choices[-1], env)
