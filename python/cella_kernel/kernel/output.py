"""sys.stdout and sys.stderr as bytes on descriptors 1 and 2, and the markers that put the bytes in order with frames.

Text of threads and tasks whose cell has ended is written in pieces, each tagged with its execution. A piece is `tag,
execution u32, length u16, text` in one write of at most PIPE_BUF bytes, so that nothing else can be written in between.
The tag is random, so no text contains it by chance.
"""

from __future__ import annotations

import _thread
import io
import os
import select
import sys
from _thread import get_ident
from collections import deque
from struct import Struct
from typing import Deque, Dict, List, Optional, Tuple

from ..protocol import LARGEST_PIECE_BYTES, TAG_BYTES
from ..sandbox.linux import libc
from . import execution_context

_HEADER = Struct("<IH")
# The most text in a piece: POSIX writes no more than LARGEST_PIECE_BYTES to a pipe at once.
_MOST_TEXT = LARGEST_PIECE_BYTES - TAG_BYTES - _HEADER.size
# If more characters are waiting, the writer flushes them.
_MOST_WAITING = 8192


def _new_tag() -> bytes:
    """A random tag. Its first byte never occurs in UTF-8."""
    return b"\xff" + os.urandom(TAG_BYTES - 1)


class TaggedOutput:
    """Tagged text that waits to be written to one stream. No lock is held while functions of the code can run."""

    def __init__(self, fd: int, pipe: int) -> None:
        self.tag = b""
        self._fd = fd
        self._pipe = pipe
        self._waiting: Deque[Tuple[int, str]] = deque()
        self._size = 0
        self._lock = _thread.allocate_lock()
        self._writer = 0

    def possible(self) -> bool:
        """False if the code has redirected the descriptor, as only the host understands tags."""
        if not self.tag:
            return False
        try:
            ours, theirs = os.fstat(self._pipe), os.fstat(self._fd)
        except OSError:
            return False
        return (ours.st_dev, ours.st_ino) == (theirs.st_dev, theirs.st_ino)

    def write(self, execution: int, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError("write() argument must be str, not %s" % type(text).__name__)
        text = str.__str__(text)
        self._waiting.append((execution, text))
        self._size += len(text)
        if self._size > _MOST_WAITING:
            self.flush()
        return len(text)

    def flush(self) -> None:
        # If a signal handler prints during a flush, that flush or the next one writes its text.
        if not self._waiting or self._writer == get_ident():
            return
        with self._lock:
            self._writer = get_ident()
            try:
                self._size = 0
                while self._waiting:
                    self._write_next()
            finally:
                self._writer = 0

    def start_over(self) -> None:
        """In a fork: drops waiting text, which the other process writes."""
        self._waiting.clear()
        self._size = 0
        self._lock = _thread.allocate_lock()
        self._writer = 0

    def _write_next(self) -> None:
        execution, text = self._waiting.popleft()
        parts = [text]
        while self._waiting and self._waiting[0][0] == execution:
            parts.append(self._waiting.popleft()[1])
        data = "".join(parts).encode("utf-8", "backslashreplace")
        begin = 0
        while begin < len(data):
            end = min(begin + _MOST_TEXT, len(data))
            # Cuts between two characters.
            while end < len(data) and data[end] & 0xC0 == 0x80:
                end -= 1
            self._write_piece(self.tag + _HEADER.pack(execution, end - begin) + data[begin:end])
            begin = end

    def _write_piece(self, piece: bytes) -> None:
        while piece:
            # A pipe takes it in one write. Anything else has no other writer.
            piece = piece[os.write(self._pipe, piece) :]


_text_write, _text_flush = io.TextIOWrapper.write, io.TextIOWrapper.flush
_owner = execution_context.execution.get
_FIRST_FLUSH_S = 0.002
_NEXT_FLUSH_S = 0.01
# References to a stream's plain `write`: the stream's, and the argument of sys.getrefcount.
_OWN_REFERENCES = 2


class Flusher:
    """One thread that flushes output shortly after the first print and for as long as the cell runs. Started by a print.

    While it is armed and the code has no other threads, streams use the fast `write` in C. With other threads, writes are
    serialized: otherwise their texts could change places, and nobody would know which came before the end of a cell.
    """

    def __init__(self) -> None:
        # During a cell, the thread flushes until the cell ends; otherwise it flushes once.
        self.in_cell = False
        self.executing = 0
        # Whether several threads or tasks may print.
        self.concurrent = True
        self.lock = _thread.RLock()
        self.armed = False
        self._streams: List["Stream"] = []
        # Locked while the thread waits. A thread ends when this is no longer its lock.
        self._wakeup: Optional["_thread.LockType"] = None

    def add(self, stream: "Stream") -> None:
        self._streams.append(stream)

    def begin(self, execution: int, concurrent: bool) -> None:
        """A cell begins. Arms at once if the code holds a stream's plain `write`, which does not arm this."""
        self.executing = execution
        self.concurrent = concurrent
        self.in_cell = True
        for stream in self._streams:
            if sys.getrefcount(stream.write_plainly) > _OWN_REFERENCES:
                self.arm()

    def arm(self) -> None:
        if self.armed:
            return
        self.armed = True
        if self._wakeup is None:
            wakeup = _thread.allocate_lock()
            wakeup.acquire()
            self._wakeup = wakeup
            try:
                _thread.start_new_thread(self._run, (wakeup,))
            except RuntimeError:
                # At the limit on processes or memory, no thread can start: flush now.
                self._wakeup = None
                self.armed = False
                self.flush_all()
                return
        elif self._wakeup.locked():
            try:
                self._wakeup.release()
            except RuntimeError:
                pass  # another thread was faster
        if not self.concurrent:
            for stream in self._streams:
                stream.__dict__["write"] = stream.write_plainly

    def on_thread_start(self) -> None:
        """The code is about to start a thread: from now on, writes are serialized."""
        self.concurrent = True
        for stream in self._streams:
            stream.__dict__.pop("write", None)

    def end(self) -> None:
        """The cell has ended: flushes its text. From now on, text of its threads is tagged with its number."""
        with self.lock:
            self.in_cell = False
            self.executing = 0
            self.concurrent = True
            self.disarm()
            for stream in self._streams:
                try:
                    stream.flush()
                except (OSError, ValueError):
                    pass  # the code has closed the descriptor

    def disarm(self) -> None:
        self.armed = False
        for stream in self._streams:
            stream.__dict__.pop("write", None)

    def end_thread(self) -> None:
        """Ends the thread, so that this process can be forked. The next print starts another."""
        wakeup, self._wakeup = self._wakeup, None
        self.disarm()
        if wakeup is not None and wakeup.locked():
            wakeup.release()

    def forget(self) -> None:
        """In a fork, which has neither the thread nor the other threads that may have held the lock."""
        self.disarm()
        self._wakeup = None
        self.lock = _thread.RLock()

    def flush_all(self) -> None:
        for stream in self._streams:
            try:
                stream.flush()
                stream.tagged.flush()
            except (OSError, ValueError):
                pass  # the code has closed the descriptor or the stream; its next write will fail

    def _run(self, wakeup: "_thread.LockType") -> None:
        while self._wakeup is wakeup:
            wakeup.acquire(True, _FIRST_FLUSH_S)
            while self.armed and self._wakeup is wakeup:
                if not self.in_cell:
                    self.disarm()
                self.flush_all()
                wakeup.acquire(True, _NEXT_FLUSH_S)
            if self._wakeup is wakeup and not self.armed:
                wakeup.acquire()


class Stream(io.TextIOWrapper):
    """Text on one descriptor, buffered in blocks. C code and child processes write to the same descriptor."""

    def __init__(self, fd: int, name: str, flusher: Flusher, pipe: int) -> None:
        raw = io.FileIO(fd, "wb", closefd=False)
        super().__init__(io.BufferedWriter(raw, 65536), encoding="utf-8", errors="backslashreplace", newline="\n")
        self._CHUNK_SIZE = 65536
        self.mode = "w"
        self._name = name
        self._flusher = flusher
        self.tagged = TaggedOutput(fd, pipe)
        self.write_plainly = _text_write.__get__(self)
        flusher.add(self)

    @property
    def name(self) -> str:
        return self._name

    def write(self, text: str) -> int:
        flusher = self._flusher
        with flusher.lock:
            owner = _owner()
            # Checked while the lock is held: the cell of this thread cannot end before its text is in the cell's stream.
            if owner == flusher.executing or not owner or not flusher.concurrent or not self.tagged.possible():
                owner = 0
                count = _text_write(self, text)
        if owner:
            count = self.tagged.write(owner, text)
        if not flusher.armed:
            flusher.arm()
        return count

    def flush(self) -> None:
        with self._flusher.lock:
            _text_flush(self)

    def detach(self) -> io.FileIO:  # type: ignore[override]
        """Gives the code another file: without its buffer, later cells could not use this one."""
        self.flush()
        return io.FileIO(self.fileno(), "wb", closefd=False)

    def close(self) -> None:
        """Only flushes: closing would end the output of all later cells."""
        self.flush()


class Output:
    """Both streams of a kernel. `sync` ensures that everything written so far comes before the next frame."""

    def __init__(self, writers: Tuple[int, int], readers: Tuple[int, int]) -> None:
        self._saved = writers
        self._readers = readers
        # One call finds out which pipes the host has not emptied, and which standard descriptors the code has closed.
        self._watch = select.poll()
        for fd in readers:
            self._watch.register(fd, select.POLLIN)
        for fd in (0, 1, 2):
            self._watch.register(fd, 0)
        self._flusher = Flusher()
        self.out = Stream(1, "<stdout>", self._flusher, writers[0])
        self.err = Stream(2, "<stderr>", self._flusher, writers[1])
        self._marker = b""
        self._marker_counts = [0, 0]

    def flush_at_once(self) -> None:
        """For systems without threads: flushes at each print."""
        self._flusher.arm = self._flusher.flush_all  # type: ignore[method-assign]

    def install(self) -> None:
        sys.stdout = sys.__stdout__ = self.out
        sys.stderr = sys.__stderr__ = self.err
        execution_context.on_start = self._flusher.on_thread_start

    def new_tag(self) -> bytes:
        """Sets a new tag, which the kernel sends to the host in HELLO."""
        tag = _new_tag()
        self.out.tagged.tag = self.err.tagged.tag = tag
        return tag

    def begin(self, marker: bytes, execution: int, concurrent: bool) -> None:
        """`concurrent`: whether threads or tasks of earlier executions may print meanwhile."""
        self._marker = marker
        self._marker_counts = [0, 0]
        self._flusher.begin(execution, concurrent)

    def flush(self) -> None:
        self._flusher.flush_all()
        libc.fflush(None)

    def sync(self, always: bool = False) -> Tuple[int, int]:
        """Flushes, and writes a marker to each stream that the host has not emptied. Returns the number of markers in each."""
        self.flush()
        if self._marker:
            self._write_markers(dict(self._watch.poll(0)), always)
        return self._marker_counts[0], self._marker_counts[1]

    def _write_markers(self, events: Dict[int, int], always: bool) -> None:
        for index, reader in enumerate(self._readers):
            # If the pipe is empty, the host has read everything and needs no marker.
            if (always and index == 0) or events.get(reader, 0) & select.POLLIN:
                os.write(self._saved[index], self._marker)
                self._marker_counts[index] += 1

    def end(self) -> Tuple[int, int]:
        """The last `sync` of an execution: no markers are written until the next `begin`."""
        self._flusher.end()
        self.flush()
        events = dict(self._watch.poll(0))
        if events:
            self._write_markers(events, always=False)
            self._reopen(events)
        self._marker = b""
        return self._marker_counts[0], self._marker_counts[1]

    def _reopen(self, events: Dict[int, int]) -> None:
        """Opens the standard descriptors that this cell has closed, for later cells."""
        for fd, source in ((1, self._saved[0]), (2, self._saved[1])):
            if events.get(fd, 0) & select.POLLNVAL:
                os.dup2(source, fd)
        if events.get(0, 0) & select.POLLNVAL:
            nothing = os.open(os.devnull, os.O_RDONLY)
            if nothing != 0:
                os.dup2(nothing, 0)
                os.close(nothing)

    def prepare_fork(self) -> None:
        """Flushes and ends the flusher's thread, so that this process can be forked."""
        self.flush()
        self._flusher.end_thread()

    def after_fork(self) -> None:
        self._flusher.forget()
        for stream in (self.out, self.err):
            stream.tagged.start_over()
