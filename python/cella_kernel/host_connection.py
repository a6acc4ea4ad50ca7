"""The kernel's one connection to the host, shared by the main thread and every thread and task that calls out.

The thread that waits reads for all: replies go to the caller that waits for their number, other frames to the main loop.
"""

from __future__ import annotations

import _thread
import asyncio
import marshal
import os
import select
from collections import deque
from time import monotonic
from typing import Any, Deque, Dict, Optional, Set, Tuple

from . import protocol
from .frames import Channel, Frame
from .interrupts import Interrupts
from .protocol import LARGEST_CALL_BYTES, LARGEST_FILE_CALL_BYTES, MOST_CALLS
from .values import is_bounded, pack

# Calls that carry bytes of a file.
_FILE_CALLS = frozenset(("artifacts.write",))

# A little longer than a host takes from one cell's result to the next cell.
_CLOSELY_S = 0.0003
_yield = getattr(os, "sched_yield", lambda: None)
# As long as a host takes from a session's start to its first cell.
_EXPECTED_S = 0.002


class HostConnection:
    def __init__(self, fd: int, interrupts: Interrupts) -> None:
        self._channel = Channel(fd)
        self._interrupts = interrupts
        self._sending = _thread.allocate_lock()
        self._reading = _thread.allocate_lock()
        # The thread that reads while it waits for a reply.
        self._reader = 0
        self._inbox: Deque[Frame] = deque()
        self._replies: Dict[int, bytes] = {}
        # Calls that a thread waits for, and those that a task does.
        self._calling: Set[int] = set()
        self._futures: Dict[int, "asyncio.Future[bytes]"] = {}
        # Sent and not replied to; and those that are still to be sent.
        self._open: Set[int] = set()
        self._unsent: Dict[int, bytes] = {}
        self._parked: Dict[int, "_thread.LockType"] = {}
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)
        self._last_call = 0
        # The loop that runs while no cell does.
        self._between: Optional[Tuple[asyncio.AbstractEventLoop, object]] = None
        self._pid = 0
        # How long to look for the next frame before sleeping.
        self._closely = 0.0

    @property
    def fd(self) -> int:
        return self._channel.fd

    def belong_to(self, pid: int) -> None:
        self._pid = pid

    def connected(self, pid: int) -> bool:
        """Whether this process is the kernel: what it forks has no connection."""
        return pid == self._pid

    def start_over(self) -> None:
        """In a fork: what was on its way belongs to the process that it came from."""
        self._channel = Channel(self._channel.fd)
        self._sending = _thread.allocate_lock()
        self._reading = _thread.allocate_lock()
        self._reader = 0
        self._inbox.clear()
        self._replies.clear()
        self._calling.clear()
        self._open.clear()
        self._unsent.clear()
        self._parked.clear()
        futures, self._futures = self._futures, {}
        for future in futures.values():
            _settle(future, _GONE)

    def send(self, kind: int, number: int, payload: bytes = b"") -> None:
        with self._interrupts, self._sending:
            self._channel.send(kind, number, payload)

    def next_frame(self) -> Frame:
        """The main loop's wait. User code does not run meanwhile, so nothing can interrupt a read."""
        if self._reader:
            self._stop_reading()
        while not self._inbox:
            if self._reading.acquire(False):
                try:
                    self._watch_closely()
                    while not self._inbox:
                        self._take_in()
                finally:
                    self._pass_on()
            else:
                self._park(0)
        return self._inbox.popleft()

    def first_frame(self) -> Frame:
        """The same for a spare, in which nothing runs yet: nothing stands between its sleep and the frame."""
        while not self._inbox:
            self._take_in()
        return self._inbox.popleft()

    def _watch_closely(self) -> None:
        """If the last frame came at once, polls briefly for the next one before sleeping.

        Waking a process that sleeps costs more than a small cell does; code that sends cell after cell does not wait
        for it, and a kernel that is left alone does not look.
        """
        began = monotonic()
        ready = self._poll.poll(0)
        while not ready and monotonic() - began < self._closely:
            # The host may need this processor to send the frame.
            _yield()
            ready = self._poll.poll(0)
        # What comes while it is looked for, or soon after, is likely to have a successor.
        soon = bool(ready)
        if not soon:
            self._poll.poll()
            soon = monotonic() - began < _CLOSELY_S
        self._closely = _CLOSELY_S if soon else 0.0

    def expect(self) -> None:
        """The next frame is on its way."""
        self._closely = _EXPECTED_S

    def waiting(self) -> bool:
        """Whether a frame is already here, so that the main loop need not wait."""
        return bool(self._inbox)

    def readable(self) -> bool:
        """Whether the host has sent something that was not read yet."""
        return bool(self._poll.poll(0))

    def call(self, method: str, params: Dict[str, Any]) -> Any:
        """Asks the host and waits for its reply; an interrupt ends the wait. Raises CallError where it is refused."""
        number = 0
        try:
            # An interrupt that comes meanwhile is raised at the end of this block, when the call is on its way.
            with self._interrupts:
                number = self._begin(method, params)
            reply = self._wait(number)
        except BaseException:
            self._give_up(number)
            raise
        finally:
            self._calling.discard(number)
            self._replies.pop(number, None)
        return _value_of(reply)

    async def call_async(self, method: str, params: Dict[str, Any]) -> Any:
        """The same for a task: others go on while it waits."""
        loop = asyncio.get_running_loop()
        future: "asyncio.Future[bytes]" = loop.create_future()
        number = 0
        try:
            with self._interrupts:
                number = self._begin(method, params, future)
                self._listen(loop)
            reply = await future
        except BaseException:
            self._give_up(number)
            raise
        finally:
            self._futures.pop(number, None)
            self._listen(loop)
        return _value_of(reply)

    def go_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """While this loop runs between two cells: it is stopped when there is something for the main loop."""
        between = self._between = (loop, object())
        self._listen(loop)
        if self._inbox:
            self._stop(between)

    def go_on_no_more(self) -> None:
        if self._between is not None:
            loop, self._between = self._between[0], None
            self._listen(loop)

    def _stop(self, between: Tuple[asyncio.AbstractEventLoop, object]) -> None:
        """From whichever thread has read the frame. What comes too late does not stop the loop another time."""
        between[0].call_soon_threadsafe(lambda: between[0].stop() if self._between is between else None)

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        """A loop watches the connection exactly while a task on it waits for a reply."""
        if loop.is_closed():
            return
        between = self._between is not None and self._between[0] is loop
        if between or any(future.get_loop() is loop for future in list(self._futures.values())):
            loop.add_reader(self.fd, self._hear)
        else:
            loop.remove_reader(self.fd)

    def _hear(self) -> None:
        with self._interrupts:
            if self._reader:
                self._stop_reading()
            # Where a thread reads, it reads for all; and where one has just done so, there may be nothing left.
            if self._reading.acquire(False):
                try:
                    if self._poll.poll(0):
                        self._take_in()
                finally:
                    self._pass_on()

    def _begin(self, method: str, params: Dict[str, Any], future: Optional["asyncio.Future[bytes]"] = None) -> int:
        # Looked at before it is packed: what is made of few objects may unfold to many.
        payload = pack((method, params)) if is_bounded(params) else None
        if payload is None or len(payload) > (LARGEST_FILE_CALL_BYTES if method in _FILE_CALLS else LARGEST_CALL_BYTES):
            # The host would cut off a kernel that sends it.
            raise CallError("TOO_LARGE", "value", _TOO_LARGE)
        with self._sending:
            self._last_call = self._last_call % 0xFFFFFFFF + 1
            number = self._last_call
            # Before it is sent: another thread may read the reply at once.
            if future is not None:
                self._futures[number] = future
            else:
                self._calling.add(number)
            if len(self._open) >= MOST_CALLS:
                self._unsent[number] = payload
            else:
                self._open.add(number)
                self._channel.send(protocol.CALL, number, payload)
        return number

    def _give_up(self, number: int) -> None:
        """The caller no longer waits for this reply; the host need not finish the work."""
        with self._interrupts, self._sending:
            self._stop_reading()
            if self._unsent.pop(number, None) is None and number in self._open:
                self._channel.send(protocol.CANCEL, number)

    def _replied(self, number: int, payload: bytes) -> None:
        # Whoever was interrupted no longer waits for its reply.
        if number in self._calling:
            self._replies[number] = payload
            self._wake(number)
        future = self._futures.pop(number, None)
        if future is not None:
            _settle(future, payload)
        with self._sending:
            self._open.discard(number)
            for waiting in list(self._unsent)[: MOST_CALLS - len(self._open)]:
                self._open.add(waiting)
                self._channel.send(protocol.CALL, waiting, self._unsent.pop(waiting))

    def _wait(self, number: int) -> bytes:
        """An interrupt may end it between any two instructions that do not hold it back: `_give_up` tidies up."""
        while number not in self._replies:
            with self._interrupts:
                reading = self._start_reading()
                # Whoever read before may have left it here.
                if number in self._replies:
                    self._stop_reading()
            if not reading:
                self._park(number)
            while reading and number not in self._replies:
                self._poll.poll()
                with self._interrupts:
                    self._take_in()
                    if number in self._replies:
                        self._stop_reading()
        return self._replies[number]

    def _start_reading(self) -> bool:
        """Where a second interrupt has kept this thread from tidying up after the first, it still reads."""
        if self._reader == _thread.get_ident():
            return True
        if not self._reading.acquire(False):
            return False
        self._reader = _thread.get_ident()
        return True

    def _stop_reading(self) -> None:
        """Where this thread reads for a reply. Interrupts are held back, or cannot come."""
        if self._reader == _thread.get_ident():
            self._reader = 0
            self._pass_on()

    def _take_in(self) -> None:
        if not self._channel.fill():
            os._exit(0)
        while True:
            frame: Optional[Frame] = self._channel.take()
            if frame is None:
                return
            kind, number, payload = frame
            if kind == protocol.REPLY:
                self._replied(number, payload)
            else:
                self._inbox.append(frame)
                self._wake(0)
                if self._between is not None:
                    self._stop(self._between)

    def _park(self, number: int) -> None:
        lock = self._parked.setdefault(number, _thread.allocate_lock())
        lock.acquire(False)
        # Between the failed try to read and this wait the reader may have gone: look again before sleeping.
        if self._reading.locked() and number not in self._replies:
            lock.acquire(True, 1)

    def _wake(self, number: int) -> None:
        lock = self._parked.pop(number, None)
        if lock is not None and lock.locked():
            lock.release()

    def _pass_on(self) -> None:
        self._reading.release()
        self._wake_all()

    def _wake_all(self) -> None:
        for number in list(self._parked):
            self._wake(number)


class CallError(Exception):
    """The host refused a call: with its code, the reason, and what sort of refusal it is."""

    def __init__(self, code: str, kind: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.kind = kind


_TOO_LARGE = (
    "what is given with this call is too large: it may have %d bytes, 50000 items and keys in all, integers of 10000 digits, "
    "and be nested 200 deep; save it as an artifact or in a file, and give its name" % LARGEST_CALL_BYTES
)
_GONE = marshal.dumps({"error": ("KERNEL_DIED", "runtime", "the kernel went back to before this call was answered")}, 2)


def _settle(future: "asyncio.Future[bytes]", reply: bytes) -> None:
    """From whichever thread has read the reply."""

    def settle() -> None:
        if not future.done():
            future.set_result(reply)

    try:
        future.get_loop().call_soon_threadsafe(settle)
    except RuntimeError:
        pass  # its loop was closed: no caller waits any more


def _value_of(reply: bytes) -> Any:
    answer = marshal.loads(reply)
    if "error" in answer:
        raise CallError(*answer["error"])
    return answer["value"]
