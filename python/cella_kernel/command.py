"""A program in the sandbox, run for the host beside the kernels: closed in like them, with its input closed, fed or on a terminal.

A process of ours stands over it, adopts what it leaves behind, and ends all of that with it.
"""

from __future__ import annotations

import json
import os
import signal
from typing import Any, Dict, List, Optional

from . import feeding, frames, programs, terminal
from .frames import Channel
from .processes import close_others, descendants, end_descendants, send_signal
from .programs import Stop
from .sandbox import linux
from .sandbox.launch import Confinement

# From pid 1: the program and all that came from it are asked to end. SIGTERM means that they have no choice.
GENTLY = signal.SIGUSR1


def become_command(
    descriptors: List[int], confinement: Optional[Confinement], spec: Dict[str, Any], command: Dict[str, Any]
) -> None:
    """The command's side of pid 1's fork. Never returns. Nothing of the program runs before the process is closed in."""
    connection, out, err = descriptors[:3]
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, _stop)
        signal.signal(GENTLY, _ask_to_end)
        os.setsid()
        close_others([connection, out, err, *(confinement.descriptors() if confinement else ())])
        os.umask(0o022)
        if linux.supported():
            linux.die_with_parent()
            linux.adopt_orphans()
        if confinement is not None:
            confinement.enter(spec)
        os.chdir(command.get("cwd") or spec["cwd"])
        if "terminal" in command:
            status = terminal.serve(connection, out, command)
        elif "stdin" in command:
            status = feeding.serve(connection, out, err, command)
        else:
            status = _run(command, out, err)
    except Stop:
        end_descendants()
        status = signal.SIGKILL
    except BaseException as error:
        _say_why(connection, error)
        os._exit(127)
    _end_with(status)


def _stop(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Stop


def _ask_to_end(*_: object) -> None:
    """Whoever does not heed it is killed later, when the host says so."""
    for pid in descendants(os.getpid()):
        send_signal(pid, signal.SIGTERM)


def _run(command: Dict[str, Any], out: int, err: int) -> int:
    """Waits for the program, then ends what it has left. Gives how it ended, as a wait status."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    pid = programs.start(command, (nothing, out, err))
    for fd in (nothing, out, err):
        os.close(fd)
    while True:
        ended, status = os.wait()
        if ended == pid:
            end_descendants()
            return status


def _end_with(status: int) -> None:
    """As the program did: pid 1 tells the host."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.pause()
    os._exit(os.WEXITSTATUS(status))


def _say_why(connection: int, error: BaseException) -> None:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    try:
        body = json.dumps({"layer": "command", "message": reason}).encode()
        Channel(connection).send(frames.FAILED, 0, body)
    except OSError:
        pass  # the host has let go: nobody wants to know
