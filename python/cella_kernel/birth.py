"""How a process becomes a kernel: closed in, with its own descriptors, and known to pid 1 of its sandbox."""

from __future__ import annotations

import json
import os
import signal
from typing import Any, Dict, List, Optional

from . import frames, kernel
from .doorbell import Doorbell
from .frames import Channel
from .processes import close_others
from .sandbox import linux
from .sandbox.launch import Confinement
from .sandbox.linux import LayerError


def become_kernel(
    descriptors: List[int],
    gate: int,
    bell: Doorbell,
    confinement: Optional[Confinement],
    spec: Dict[str, Any],
    spare: bool,
) -> None:
    """The kernel's side of pid 1's fork. Never returns. No user code runs before the process is closed in."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    the_kernel = kernel.the_kernel
    assert the_kernel is not None
    try:
        os.setsid()
        # Those of pid 1 (its own connection, its control group) may have any number; the kernel gets none of them.
        close_others([*descriptors, gate, *(confinement.descriptors() if confinement else ())])
        os.umask(0o022)
        if linux.supported():
            linux.die_with_parent()
        if confinement is not None:
            confinement.enter(spec)
        _enter(spec["cwd"])
        if spare:
            the_kernel.be_spare()
        the_kernel.adopt(descriptors, gate, bell)
    except BaseException as error:
        _say_why(descriptors[0], error)
    try:
        the_kernel.serve()
    except MemoryError:
        os._exit(kernel.WITHOUT_MEMORY)
    finally:
        os._exit(kernel.FAILED)


def _enter(folder: str) -> None:
    try:
        os.chdir(folder)
    except OSError as error:
        raise LayerError("workspace", str(error)) from error


def _say_why(fd: int, error: BaseException) -> None:
    layer, message = (error.layer, error.message) if isinstance(error, LayerError) else ("template", repr(error))
    try:
        Channel(fd).send(frames.FAILED, 0, json.dumps({"layer": layer, "message": message}).encode())
        # The host hangs up, not we: a write of its own to a closed connection would make it miss the reason.
        while os.read(fd, 65536):
            pass
    finally:
        os._exit(72)
