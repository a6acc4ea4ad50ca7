"""sys.stdout and sys.stderr as bytes on descriptors 1 and 2, and the marks that put them in order with frames."""

from __future__ import annotations

import _thread
import fcntl
import io
import os
import struct
import sys
import termios
import time
from typing import List, Tuple

from .sandbox.linux import libc

_text_write = io.TextIOWrapper.write
_FIRST_FLUSH_S = 0.002
_NEXT_FLUSH_S = 0.01


class Flusher:
    """One parked thread that flushes a burst of output shortly after it begins. No thread before the first print."""

    def __init__(self) -> None:
        self.armed = False
        self._streams: List["Stream"] = []
        self._gate = None

    def add(self, stream: "Stream") -> None:
        self._streams.append(stream)

    def arm(self) -> None:
        self.armed = True
        if self._gate is None:
            self._gate = _thread.allocate_lock()
            self._gate.acquire()
            _thread.start_new_thread(self._run, (self._gate,))
        elif self._gate.locked():
            self._gate.release()

    def forget(self) -> None:
        """After a fork: the thread is not in this process."""
        self.armed = False
        self._gate = None

    def _run(self, gate: "_thread.LockType") -> None:
        delay = _FIRST_FLUSH_S
        while True:
            time.sleep(delay)
            self.armed = False
            for stream in self._streams:
                try:
                    stream.flush()
                except (OSError, ValueError):
                    pass  # the code closed the descriptor or the stream; its own next write tells it
            # A burst that goes on is flushed at the slower pace; after a pause the first byte is quick again.
            parked = time.monotonic()
            gate.acquire()
            delay = _NEXT_FLUSH_S if time.monotonic() - parked < _NEXT_FLUSH_S else _FIRST_FLUSH_S


class Stream(io.TextIOWrapper):
    """Text on one descriptor, buffered in blocks; what C code and children write comes out of the same place."""

    def __init__(self, fd: int, name: str, flusher: Flusher) -> None:
        raw = io.FileIO(fd, "wb", closefd=False)
        super().__init__(io.BufferedWriter(raw, 65536), encoding="utf-8", errors="backslashreplace", newline="\n")
        self._CHUNK_SIZE = 65536
        self.mode = "w"
        self._label = name
        self._flusher = flusher
        flusher.add(self)

    @property
    def name(self) -> str:
        return self._label

    def write(self, text: str) -> int:
        count = _text_write(self, text)
        if not self._flusher.armed:
            self._flusher.arm()
        return count

    def close(self) -> None:
        """Closing would end the output of every later cell; the text is flushed instead."""
        self.flush()


class Output:
    """Both streams of a kernel. `sync` makes all that was written so far come before the next frame."""

    def __init__(self, saved_out: int, saved_err: int) -> None:
        self._saved = (saved_out, saved_err)
        self._flusher = Flusher()
        self.out = Stream(1, "<stdout>", self._flusher)
        self.err = Stream(2, "<stderr>", self._flusher)
        self._mark = b""
        self._marks = [0, 0]

    def install(self) -> None:
        sys.stdout = sys.__stdout__ = self.out
        sys.stderr = sys.__stderr__ = self.err

    def begin(self, mark: bytes) -> None:
        self._mark = mark
        self._marks = [0, 0]
        for fd, saved in ((1, self._saved[0]), (2, self._saved[1])):
            try:
                os.fstat(fd)
            except OSError:
                os.dup2(saved, fd)
        try:
            os.fstat(0)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)

    def flush(self) -> None:
        for stream in (self.out, self.err):
            try:
                stream.flush()
            except (OSError, ValueError):
                pass  # the code closed the descriptor: nothing more can be written there in this cell
        libc.fflush(None)

    def sync(self, always: bool = False) -> Tuple[int, int]:
        """Flushes, and marks each stream that the host has not read to its end. Returns the marks written so far."""
        self.flush()
        if not self._mark:
            return 0, 0
        for index, fd in enumerate(self._saved):
            if (always and index == 0) or _unread(fd):
                os.write(fd, self._mark)
                self._marks[index] += 1
        return self._marks[0], self._marks[1]

    def end(self) -> Tuple[int, int]:
        """The last `sync` of an execution. What comes after it has no mark, until the next `begin`."""
        marks = self.sync()
        self._mark = b""
        return marks

    def after_fork(self) -> None:
        self._flusher.forget()


def _unread(fd: int) -> bool:
    # An empty pipe means that the host has read everything: a mark would only cost time.
    return struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"\0\0\0\0"))[0] > 0
