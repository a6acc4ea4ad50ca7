"""The kernel's part in durable checkpoints: sends variables to the host in parts, and loads parts from the host."""

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
from ..protocol import KERNEL_FDS, MOST_LOST, MOST_VARIABLES, PART_BYTES
from ..sandbox import linux
from ..sandbox.linux import LayerError
from ..values import pack

_LENGTH = struct.Struct("<I")
NOTHING: Dict[str, Any] = {"saved": [], "lost": []}

Send = Callable[[int, bytes], None]


def save(send: Send, namespace: Dict[str, Any], cells: Mapping[str, str], limit_bytes: int, seconds: float) -> None:
    """Sends the parts, then SAVED. A fork does the work, so that code that runs there cannot harm this process."""
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
            send(protocol.SAVED, answer(NOTHING, failed="the process that saves has ended or took too long"))
    processes.end_group(pid)


def _fork() -> int:
    """With several threads, runs Python's fork hooks: without them, the fork could wait for a thread that it does not have."""
    if linux.supported() and len(os.listdir("/proc/self/task")) == 1:
        return linux.fork()
    random = sys.modules.get("random")
    state = random.getstate() if random is not None else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python warns of forks with threads
        pid = os.fork()
    if pid == 0 and random is not None:
        random.setstate(state)
    return pid


def _save(channel: Channel, namespace: Dict[str, Any], cells: Mapping[str, str], limit_bytes: int, seconds: float) -> None:
    """Never returns."""

    def send(kind: int, payload: bytes) -> None:
        channel.send(kind, 0, payload)

    try:
        # A new process group, which is killed with the processes that code starts here.
        os.setsid()
        # The host and pid 1 would take what code writes to these descriptors for messages of the kernel.
        os.closerange(KERNEL_FDS.start, KERNEL_FDS.stop)
        if linux.supported():
            linux.adopt_orphans()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        outcome = durable_save.save(namespace, cells, emitter(send), limit_bytes=limit_bytes, seconds=seconds)
        send(protocol.SAVED, answer(outcome))
    except BaseException as error:
        send(protocol.SAVED, answer(NOTHING, failed="%s: %s" % (type(error).__name__, error)))
    finally:
        processes.end_descendants()
        os._exit(0)


def emitter(send: Send) -> Callable[[Dict[str, Any], Any], None]:
    """Returns a function that sends a segment in parts of at most PART_BYTES."""

    def emit(header: Dict[str, Any], data: Any) -> None:
        view = memoryview(data).cast("B") if len(data) else memoryview(b"")
        for at in range(0, max(len(view), 1), PART_BYTES):
            last = at + PART_BYTES >= len(view)
            head = json.dumps({**header, "last": last}).encode()
            piece = view[at : at + PART_BYTES]
            send(protocol.PART, b"".join((_LENGTH.pack(len(head)), head, piece)))

    return emit


def answer(outcome: Dict[str, Any], **more: str) -> bytes:
    python = "%d.%d.%d" % sys.version_info[:3]
    reasons = {key: shorten_reason(text) for key, text in more.items()}
    return pack({"python": python, "saved": _named(outcome["saved"]), **_first_lost(outcome["lost"]), **reasons})


def _first_lost(lost: List[Dict[str, str]]) -> Dict[str, Any]:
    return {"lost": lost[:MOST_LOST], "moreLost": len(lost[MOST_LOST:])}


def _named(names: List[str]) -> List[str]:
    """Without the last results, which are not variables of the code."""
    return [name for name in names if name not in LAST_RESULTS]


def _relay(channel: Channel, send: Send, until: float) -> bool:
    """Passes complete frames from the fork to the host. Returns False if it did not get SAVED in time."""
    poll = select.poll()
    poll.register(channel.fd, select.POLLIN)
    while poll.poll(max(0.0, until - time.monotonic()) * 1000):
        try:
            if not channel.fill():
                return False
        except OSError:
            return False  # the fork was killed in the middle of a frame
        while True:
            frame = channel.take()
            if frame is None:
                break
            kind, _, payload = frame
            if kind not in (protocol.PART, protocol.SAVED):
                return False  # user code has written to this connection
            send(kind, payload)
            if kind == protocol.SAVED:
                return True
    return False


class IncomingSegments:
    """Parts from the host, joined to segments."""

    def __init__(self) -> None:
        self._segments: List[Tuple[Dict[str, Any], bytes]] = []
        self._pieces: List[bytes] = []

    def add(self, payload: bytes) -> Optional[str]:
        """Takes one part. Returns None, or after the last part the version of Python that wrote them."""
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
        outcome = durable_load.load(namespace, self._segments, python=python)
        for name, text in outcome.get("cells", {}).items():
            remember(name, text)
        # A checkpoint may be damaged, or older than these limits.
        lost = [{"name": shorten_name(one["name"]), "reason": one["reason"]} for one in outcome["lost"]]
        restored = [shorten_name(name) for name in _named(outcome["restored"])[:MOST_VARIABLES]]
        return {"restored": restored, **_first_lost(lost)}
