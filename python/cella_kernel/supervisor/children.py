"""How a fork of pid 1 becomes a kernel, or the monitor of a program: confined, and with only its own descriptors.

Each program of the host has a monitor: a process of Cella's that starts the program, adopts the processes that it leaves
behind, and ends them with it.
"""

from __future__ import annotations

import os
import signal
from typing import Any, Dict, List, Optional

from .. import protocol
from ..frames import Channel, report_failure, send_failure
from ..interrupts import InterruptSlot
from ..kernel import kernel
from ..processes import close_others, descendants, end_descendants, send_signal
from ..sandbox import linux
from ..sandbox.launch import Confinement
from ..sandbox.linux import LayerError
from . import program, terminal
from .program import Stop


def confine_child(keep: List[int], confinement: Optional[Confinement], spec: Dict[str, Any]) -> None:
    """The first step of every fork of pid 1: resets signal handling, closes all descriptors but `keep`, and is confined."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    # Closes pid 1's connection, its control group and so on, whatever their numbers.
    close_others([*keep, *(confinement.descriptors() if confinement else ())])
    os.umask(0o022)
    if linux.supported():
        linux.die_with_parent()
    if confinement is not None:
        confinement.enter(spec)


def become_kernel(
    descriptors: List[int],
    registration: int,
    slot: InterruptSlot,
    confinement: Optional[Confinement],
    spec: Dict[str, Any],
    spare: bool,
) -> None:
    """In a fork of pid 1: becomes a kernel. Never returns. No user code runs before the process is confined."""
    the_kernel = kernel.the_kernel
    assert the_kernel is not None
    try:
        confine_child([*descriptors, registration], confinement, spec)
        _enter_folder(spec["cwd"])
        if spare:
            the_kernel.become_spare()
        the_kernel.adopt(descriptors, registration, slot)
    except BaseException as error:
        _end_unconfined(Channel(descriptors[0]), error)
    try:
        the_kernel.serve()
    except MemoryError:
        os._exit(protocol.EXIT_OUT_OF_MEMORY)
    finally:
        os._exit(protocol.EXIT_FAILED)


def _end_unconfined(connection: Channel, error: BaseException) -> None:
    """Never returns."""
    try:
        report_failure(connection, error)
    finally:
        os._exit(protocol.EXIT_NOT_ISOLATED)


def _enter_folder(folder: str) -> None:
    try:
        os.chdir(folder)
    except OSError as error:
        raise LayerError("workspace", str(error)) from error


# Pid 1 sends this to a monitor, which then sends SIGTERM to the program and its descendants. For SIGTERM, it kills them.
GENTLY = signal.SIGUSR1


def become_program(
    descriptors: List[int], confinement: Optional[Confinement], spec: Dict[str, Any], command: Dict[str, Any]
) -> None:
    """In a fork of pid 1: becomes the monitor of a program. Never returns. The program starts after it is confined."""
    connection, out, err = descriptors[:3]
    try:
        signal.signal(signal.SIGTERM, _stop)
        signal.signal(GENTLY, _ask_to_end)
        if linux.supported():
            linux.adopt_orphans()
        confine_child([connection, out, err], confinement, spec)
        os.chdir(command.get("cwd") or spec["cwd"])
        if "terminal" in command:
            status = terminal.serve(connection, out, command)
        elif "stdin" in command:
            status = program.run_with_stdin(connection, out, err, command)
        else:
            status = _run_program(command, out, err)
    except Stop:
        end_descendants()
        status = signal.SIGKILL
    except BaseException as error:
        _report_program_failure(connection, error)
        os._exit(protocol.EXIT_NOT_STARTED)
    _end_with(status)


def _stop(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Stop


def _ask_to_end(*_: object) -> None:
    """If a process does not end, the host has it killed later."""
    for pid in descendants(os.getpid()):
        send_signal(pid, signal.SIGTERM)


def _run_program(command: Dict[str, Any], out: int, err: int) -> int:
    """Waits for the program, then ends its remaining descendants. Returns its wait status."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    pid = program.start(command, (nothing, out, err))
    for fd in (nothing, out, err):
        os.close(fd)
    while True:
        ended, status = os.wait()
        if ended == pid:
            end_descendants()
            return status


def _end_with(status: int) -> None:
    """Exits as the program did, so that pid 1 can report it to the host."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        if number != signal.SIGKILL:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.pause()
    os._exit(os.WEXITSTATUS(status))


def _report_program_failure(connection: int, error: BaseException) -> None:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    try:
        send_failure(Channel(connection), LayerError("command", reason))
    except OSError:
        pass  # the host has closed the connection
