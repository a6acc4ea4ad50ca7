"""The kernel's side of durable checkpoints: sends variables to the host in parts, and loads parts from the host."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import struct
import sys
import time
import warnings
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

from .. import processes, protocol
from ..durable import load as durable_load
from ..durable import save as durable_save
from ..durable.variables import LAST_RESULTS, shorten_name, shorten_reason
from ..frames import Channel
from ..protocol import KERNEL_FDS, MOST_VARIABLES, PART_BYTES
from ..sandbox import linux
from ..sandbox.linux import LayerError
from ..values import pack

_LENGTH = struct.Struct("<I")
NOTHING: Dict[str, Any] = {"saved": [], "lost": []}

Send = Callable[[int, bytes], None]


def save(send: Send, namespace: Dict[str, Any], cells: Mapping[str, str], limit_bytes: int, seconds: float) -> None:
    """Sends the parts, and SAVED at the end. A fork does the work: whatever code runs there, this process goes on."""
    try:
        ours, theirs = socket.socketpair()
        pid = _fork()
    except (OSError, LayerError) as error:
        send(protocol.SAVED, answer(NOTHING, failed=str(error)))
        return
    if pid == 0:
        ours.close()
        _save(Channel(theirs.detach()), namespace, cells, limit_bytes, seconds)
    theirs.close()
    with ours:
        if not _relay(Channel(ours.fileno()), send, time.monotonic() + seconds + 2):
            send(protocol.SAVED, answer(NOTHING, failed="the process that saves has ended or takes too long"))
    _end(pid)


def _fork() -> int:
    """With threads, by Python's own hooks: without them the fork would wait for a thread that it does not have."""
    if linux.supported() and len(os.listdir("/proc/self/task")) == 1:
        return linux.fork()
    random = sys.modules.get("random")
    state = random.getstate() if random is not None else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that threads run is known
        pid = os.fork()
    if pid == 0 and random is not None:
        random.setstate(state)
    return pid


def _save(channel: Channel, namespace: Dict[str, Any], cells: Mapping[str, str], limit_bytes: int, seconds: float) -> None:
    """Never returns."""

    def send(kind: int, payload: bytes) -> None:
        channel.send(kind, 0, payload)

    try:
        # A process group of its own, so that whatever code starts here ends with it.
        os.setsid()
        # What code wrote to the connection or the registration socket would be taken for the kernel's.
        os.closerange(KERNEL_FDS.start, KERNEL_FDS.stop)
        if linux.supported():
            linux.adopt_orphans()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        told = durable_save.save(namespace, cells, emitter(send), limit_bytes=limit_bytes, seconds=seconds)
        send(protocol.SAVED, answer(told))
    except BaseException as error:
        send(protocol.SAVED, answer(NOTHING, failed="%s: %s" % (type(error).__name__, error)))
    finally:
        processes.end_descendants()
        os._exit(0)


def emitter(send: Send) -> Callable[[Dict[str, Any], Any], None]:
    """Sends a segment in parts, each no larger than the host takes."""

    def emit(header: Dict[str, Any], data: Any) -> None:
        view = memoryview(data).cast("B") if len(data) else memoryview(b"")
        for at in range(0, max(len(view), 1), PART_BYTES):
            last = at + PART_BYTES >= len(view)
            head = json.dumps({**header, "last": last}).encode()
            piece = view[at : at + PART_BYTES]
            send(protocol.PART, b"".join((_LENGTH.pack(len(head)), head, piece)))

    return emit


def answer(told: Dict[str, Any], **more: str) -> bytes:
    python = "%d.%d.%d" % sys.version_info[:3]
    return pack({"python": python, "saved": _named(told["saved"]), "lost": told["lost"], **{key: shorten_reason(text) for key, text in more.items()}})


def _named(names: List[str]) -> List[str]:
    """Without the last results, which the code has not named."""
    return [name for name in names if name not in LAST_RESULTS]


def _relay(channel: Channel, send: Send, until: float) -> bool:
    """Frames from the fork to the host, whole ones only. False where it did not come to its end."""
    poll = select.poll()
    poll.register(channel.fd, select.POLLIN)
    while poll.poll(max(0.0, until - time.monotonic()) * 1000):
        try:
            if not channel.fill():
                return False
        except OSError:
            return False  # it was killed in the middle of a frame
        while True:
            frame = channel.take()
            if frame is None:
                break
            kind, _, payload = frame
            if kind not in (protocol.PART, protocol.SAVED):
                return False  # user code has written to our connection to the kernel
            send(kind, payload)
            if kind == protocol.SAVED:
                return True
    return False


def _end(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # it had no time to make its group, or is gone
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    except (ProcessLookupError, ChildProcessError):
        pass  # the code's own handler has reaped it


class IncomingSegments:
    """Parts from the host, put together to segments."""

    def __init__(self) -> None:
        self._segments: List[Tuple[Dict[str, Any], bytes]] = []
        self._pieces: List[bytes] = []

    def add(self, payload: bytes) -> Optional[str]:
        """Takes one part. At the end, gives the version of Python that wrote them."""
        (length,) = _LENGTH.unpack_from(payload)
        header = json.loads(payload[4 : 4 + length])
        if header.get("end"):
            return str(header["python"])
        self._pieces.append(payload[4 + length :])
        if header.pop("last"):
            self._segments.append((header, self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)))
            self._pieces = []
        return None

    def load(self, namespace: Dict[str, Any], python: str, remember: Callable[[str, str], None]) -> Dict[str, Any]:
        told = durable_load.load(namespace, self._segments, python=python)
        for name, text in told.get("cells", {}).items():
            remember(name, text)
        # A checkpoint may come from before these bounds, or be damaged.
        lost = [{"name": shorten_name(one["name"]), "reason": one["reason"]} for one in told["lost"][:MOST_VARIABLES]]
        return {"restored": [shorten_name(name) for name in _named(told["restored"])[:MOST_VARIABLES]], "lost": lost}
