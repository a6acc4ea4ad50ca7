"""How a fork of pid 1 becomes a kernel or a program of the host: confined, and with its own descriptors only.

A process of ours stands over a program, adopts what it leaves behind, and ends all of that with it.
"""

from __future__ import annotations

import json
import os
import signal
from typing import Any, Dict, List, Optional

from .. import protocol
from ..frames import Channel
from ..interrupt_slot import InterruptSlot
from ..kernel import kernel
from ..processes import close_others, descendants, end_descendants, send_signal
from ..sandbox import linux
from ..sandbox.launch import Confinement
from ..sandbox.linux import LayerError
from . import program, terminal
from .program import Stop


def confine_child(keep: List[int], confinement: Optional[Confinement], spec: Dict[str, Any]) -> None:
    """What every fork of pid 1 does first. It keeps none of pid 1's signal handling and only these descriptors."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    # Those of pid 1 (its own connection, its control group) may have any number.
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
    """The kernel's side of pid 1's fork. Never returns. No user code runs before the process is confined."""
    the_kernel = kernel.the_kernel
    assert the_kernel is not None
    try:
        confine_child([*descriptors, registration], confinement, spec)
        _enter_folder(spec["cwd"])
        if spare:
            the_kernel.be_spare()
        the_kernel.adopt(descriptors, registration, slot)
    except BaseException as error:
        _report_kernel_failure(descriptors[0], error)
    try:
        the_kernel.serve()
    except MemoryError:
        os._exit(protocol.EXIT_OUT_OF_MEMORY)
    finally:
        os._exit(protocol.EXIT_FAILED)


def _enter_folder(folder: str) -> None:
    try:
        os.chdir(folder)
    except OSError as error:
        raise LayerError("workspace", str(error)) from error


def _report_kernel_failure(fd: int, error: BaseException) -> None:
    layer, message = (error.layer, error.message) if isinstance(error, LayerError) else ("template", repr(error))
    try:
        Channel(fd).send(protocol.FAILED, 0, json.dumps({"layer": layer, "message": message}).encode())
        # The host closes the connection, not we: if it wrote to a closed one, it would miss the reason.
        while os.read(fd, 65536):
            pass
    finally:
        os._exit(protocol.EXIT_NOT_ISOLATED)


# From pid 1: the program and all that came from it are asked to end. SIGTERM means that they have no choice.
GENTLY = signal.SIGUSR1


def become_program(
    descriptors: List[int], confinement: Optional[Confinement], spec: Dict[str, Any], command: Dict[str, Any]
) -> None:
    """The program's side of pid 1's fork. Never returns. Nothing of the program runs before the process is confined."""
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
    """A process that does not end is killed later, when the host says so."""
    for pid in descendants(os.getpid()):
        send_signal(pid, signal.SIGTERM)


def _run_program(command: Dict[str, Any], out: int, err: int) -> int:
    """Waits for the program, then ends what it has left. Gives how it ended, as a wait status."""
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
    """Exits as the program did: pid 1 reports that to the host."""
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
        body = json.dumps({"layer": "command", "message": reason}).encode()
        Channel(connection).send(protocol.FAILED, 0, body)
    except OSError:
        pass  # the host has closed the connection
