"""The kernel's one connection to the host, shared by the main loop and all threads and tasks that call the host.

One waiting thread reads for all: it gives replies to the callers that wait for them, and other frames to the main loop.
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

# A little longer than a host takes from the result of a cell to the next cell.
_POLL_S = 0.0003
_yield = getattr(os, "sched_yield", lambda: None)
# As long as a host takes from the start of a session to its first cell.
_FIRST_POLL_S = 0.002


class HostConnection:
    def __init__(self, fd: int, interrupts: Interrupts) -> None:
        self._channel = Channel(fd)
        self._interrupts = interrupts
        self._sending = _thread.allocate_lock()
        self._reading = _thread.allocate_lock()
        # The thread that is reading while it waits for a reply.
        self._reader = 0
        self._inbox: Deque[Frame] = deque()
        self._replies: Dict[int, bytes] = {}
        # Calls that threads wait for, and those that tasks wait for.
        self._calling: Set[int] = set()
        self._futures: Dict[int, "asyncio.Future[bytes]"] = {}
        # Calls without a reply, and those that have not been sent yet.
        self._open: Set[int] = set()
        self._unsent: Dict[int, bytes] = {}
        self._parked: Dict[int, "_thread.LockType"] = {}
        self._poll = select.poll()
        self._poll.register(fd, select.POLLIN)
        self._last_call = 0
        # The event loop that runs while no cell does.
        self._between: Optional[Tuple[asyncio.AbstractEventLoop, object]] = None
        self._pid = 0
        # How long to poll for the next frame before sleeping.
        self._poll_s = 0.0

    @property
    def fd(self) -> int:
        return self._channel.fd

    def belong_to(self, pid: int) -> None:
        self._pid = pid

    def connected(self, pid: int) -> bool:
        """Whether this process is the kernel. A process that it forks cannot call the host."""
        return pid == self._pid

    def start_over(self) -> None:
        """In a fork: drops calls and frames of the process that it was forked from."""
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
        """Waits for a frame for the main loop. No user code runs meanwhile, so that no interrupt can cut a read short."""
        if self._reader:
            self._stop_reading()
        while not self._inbox:
            if self._reading.acquire(False):
                try:
                    self._wait_readable()
                    while not self._inbox:
                        self._read_frames()
                finally:
                    self._release_reading()
            else:
                self._park(0)
        return self._inbox.popleft()

    def first_frame(self) -> Frame:
        """As `next_frame`, with less work on waking, for a spare in which nothing runs yet."""
        while not self._inbox:
            self._read_frames()
        return self._inbox.popleft()

    def _wait_readable(self) -> None:
        """If the last frame came quickly, polls briefly for the next one before sleeping.

        Waking a process takes longer than a small cell, so a kernel that gets cell after cell does not sleep in between. A
        kernel that gets no frames does not poll.
        """
        began = monotonic()
        ready = self._poll.poll(0)
        while not ready and monotonic() - began < self._poll_s:
            # The host may need this processor to send the frame.
            _yield()
            ready = self._poll.poll(0)
        # A frame that comes during the polling, or soon after, is likely to be followed by another.
        soon = bool(ready)
        if not soon:
            self._poll.poll()
            soon = monotonic() - began < _POLL_S
        self._poll_s = _POLL_S if soon else 0.0

    def expect_frame(self) -> None:
        """Polls longer before the next sleep, as a frame is about to come."""
        self._poll_s = _FIRST_POLL_S

    def waiting(self) -> bool:
        """Whether a frame has been read that the main loop has not taken yet."""
        return bool(self._inbox)

    def readable(self) -> bool:
        """Whether the host has sent something that has not been read yet."""
        return bool(self._poll.poll(0))

    def call(self, method: str, params: Dict[str, Any]) -> Any:
        """Calls the host and waits for its reply; an interrupt ends the wait. Raises CallError if the host refuses."""
        number = 0
        try:
            # An interrupt that comes meanwhile is raised at the end of this block, after the call was sent.
            with self._interrupts:
                number = self._begin(method, params)
            reply = self._wait(number)
        except BaseException:
            self._cancel(number)
            raise
        finally:
            self._calling.discard(number)
            self._replies.pop(number, None)
        return _value_of(reply)

    async def call_async(self, method: str, params: Dict[str, Any]) -> Any:
        """As `call`, for a task: other tasks run while it waits."""
        loop = asyncio.get_running_loop()
        future: "asyncio.Future[bytes]" = loop.create_future()
        number = 0
        try:
            with self._interrupts:
                number = self._begin(method, params, future)
                self._listen(loop)
            reply = await future
        except BaseException:
            self._cancel(number)
            raise
        finally:
            self._futures.pop(number, None)
            self._listen(loop)
        return _value_of(reply)

    def begin_between_cells(self, loop: asyncio.AbstractEventLoop) -> None:
        """The loop is about to run between two cells: stops it as soon as there is a frame for the main loop."""
        between = self._between = (loop, object())
        self._listen(loop)
        if self._inbox:
            self._stop(between)

    def end_between_cells(self) -> None:
        if self._between is not None:
            loop, self._between = self._between[0], None
            self._listen(loop)

    def _stop(self, between: Tuple[asyncio.AbstractEventLoop, object]) -> None:
        """Called in the thread that has read the frame. Stops only this run of the loop, not a later one."""
        between[0].call_soon_threadsafe(lambda: between[0].stop() if self._between is between else None)

    def _listen(self, loop: asyncio.AbstractEventLoop) -> None:
        """Has the loop watch the connection while one of its tasks waits for a reply, or while it runs between cells."""
        if loop.is_closed():
            return
        between = self._between is not None and self._between[0] is loop
        if between or any(future.get_loop() is loop for future in list(self._futures.values())):
            loop.add_reader(self.fd, self._on_readable)
        else:
            loop.remove_reader(self.fd)

    def _on_readable(self) -> None:
        with self._interrupts:
            if self._reader:
                self._stop_reading()
            # If a thread is reading, it reads for all. If one has just done so, nothing may be left.
            if self._reading.acquire(False):
                try:
                    if self._poll.poll(0):
                        self._read_frames()
                finally:
                    self._release_reading()

    def _begin(self, method: str, params: Dict[str, Any], future: Optional["asyncio.Future[bytes]"] = None) -> int:
        # Checked before packing: a value with shared parts can become much larger.
        payload = pack((method, params)) if is_bounded(params) else None
        if payload is None or len(payload) > (LARGEST_FILE_CALL_BYTES if method in _FILE_CALLS else LARGEST_CALL_BYTES):
            # The host would close the connection of a kernel that sends such a call.
            raise CallError("TOO_LARGE", "value", _TOO_LARGE)
        with self._sending:
            self._last_call = self._last_call % 0xFFFFFFFF + 1
            number = self._last_call
            # Before sending, as another thread may read the reply at once.
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

    def _cancel(self, number: int) -> None:
        """The caller no longer waits for the reply: tells the host that it can stop the work."""
        with self._interrupts, self._sending:
            self._stop_reading()
            if self._unsent.pop(number, None) is None and number in self._open:
                self._channel.send(protocol.CANCEL, number)

    def _replied(self, number: int, payload: bytes) -> None:
        # A caller that was interrupted no longer waits.
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
        """An interrupt can end this between any two instructions outside `with self._interrupts`; `_cancel` cleans up."""
        while number not in self._replies:
            with self._interrupts:
                reading = self._start_reading()
                # The previous reader may have read the reply.
                if number in self._replies:
                    self._stop_reading()
            if not reading:
                self._park(number)
            while reading and number not in self._replies:
                self._poll.poll()
                with self._interrupts:
                    self._read_frames()
                    if number in self._replies:
                        self._stop_reading()
        return self._replies[number]

    def _start_reading(self) -> bool:
        """True if this thread reads now. It may still be the reader, if a second interrupt cut the cleanup of the first."""
        if self._reader == _thread.get_ident():
            return True
        if not self._reading.acquire(False):
            return False
        self._reader = _thread.get_ident()
        return True

    def _stop_reading(self) -> None:
        """If this thread is the reader, lets another thread read. Call it where no interrupt can be raised."""
        if self._reader == _thread.get_ident():
            self._reader = 0
            self._release_reading()

    def _read_frames(self) -> None:
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
        # The reader may have stopped since this thread failed to become it: check again before sleeping.
        if self._reading.locked() and number not in self._replies:
            lock.acquire(True, 1)

    def _wake(self, number: int) -> None:
        lock = self._parked.pop(number, None)
        if lock is not None and lock.locked():
            lock.release()

    def _release_reading(self) -> None:
        self._reading.release()
        self._wake_all()

    def _wake_all(self) -> None:
        for number in list(self._parked):
            self._wake(number)


class CallError(Exception):
    """The host refused a call. `code` is the error code; `kind` decides the class of the exception that code gets."""

    def __init__(self, code: str, kind: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.kind = kind


_TOO_LARGE = (
    "the arguments of this call are too large: at most %d bytes, 50000 items and keys in total, integers of 10000 digits and "
    "200 levels; save the data as an artifact or in a file, and pass its name" % LARGEST_CALL_BYTES
)
_GONE = marshal.dumps({"error": ("KERNEL_DIED", "runtime", "the kernel was rolled back to before this call was answered")}, 2)


def _settle(future: "asyncio.Future[bytes]", reply: bytes) -> None:
    """Called in the thread that has read the reply."""

    def settle() -> None:
        if not future.done():
            future.set_result(reply)

    try:
        future.get_loop().call_soon_threadsafe(settle)
    except RuntimeError:
        pass  # the loop was closed: no caller waits


def _value_of(reply: bytes) -> Any:
    answer = marshal.loads(reply)
    if "error" in answer:
        raise CallError(*answer["error"])
    return answer["value"]
