"""sys.stdout and sys.stderr as bytes on descriptors 1 and 2, and the markers that put them in order with frames.

Text of threads and tasks whose cell is over goes out in pieces, each tagged with its execution. A piece is `tag,
execution u32, length u16, text` in one write of at most PIPE_BUF bytes, so that nothing that others write to the same
pipe comes between. The tag is random: no text holds it by chance.
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
# Of text, in one piece: a piece is no larger than what POSIX writes to a pipe as a whole.
_MOST = LARGEST_PIECE_BYTES - TAG_BYTES - _HEADER.size
# Past this, a writer waits until it is flushed.
_MOST_WAITING = 8192


def _new_tag() -> bytes:
    """It begins with a byte that is in no UTF-8 text."""
    return b"\xff" + os.urandom(TAG_BYTES - 1)


class TaggedOutput:
    """What waits to be written so to one stream. Nothing is held while the code's own functions may run."""

    def __init__(self, fd: int, pipe: int) -> None:
        self.tag = b""
        self._fd = fd
        self._pipe = pipe
        self._waiting: Deque[Tuple[int, str]] = deque()
        self._size = 0
        self._lock = _thread.allocate_lock()
        self._writer = 0

    def possible(self) -> bool:
        """False if the code has redirected the descriptor: a tag means something to the host only."""
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
        # A print by a signal handler in the middle of this: the writer that is active writes it, or the next one.
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
        """In a fork: what waited is written by the process that it came from."""
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
            end = min(begin + _MOST, len(data))
            # Between two characters.
            while end < len(data) and data[end] & 0xC0 == 0x80:
                end -= 1
            self._write_piece(self.tag + _HEADER.pack(execution, end - begin) + data[begin:end])
            begin = end

    def _write_piece(self, piece: bytes) -> None:
        while piece:
            # One write, except where there is no pipe, and so no other writer.
            piece = piece[os.write(self._pipe, piece) :]


_text_write, _text_flush = io.TextIOWrapper.write, io.TextIOWrapper.flush
_owner = execution_context.execution.get
_FIRST_FLUSH_S = 0.002
_NEXT_FLUSH_S = 0.01
# To a stream's plain `write`: its own, and the one by which the count is asked.
_OWN_REFERENCES = 2


class Flusher:
    """One parked thread that flushes output shortly after it begins, and while its cell goes on. None before a print.

    While it is at work and the code has no threads, streams write without a detour through Python. Threads take turns:
    text of two that write at once would change places, and which of it came before the end of a cell would be unknown.
    """

    def __init__(self) -> None:
        # The cell that runs, if one does: then it goes on until the cell ends, else until it has flushed once.
        self.in_cell = False
        self.executing = 0
        # Whether others than the cell's own code may print, or it may itself from several threads.
        self.crowded = True
        self.lock = _thread.RLock()
        self.armed = False
        self._streams: List["Stream"] = []
        # Always locked while its thread waits; another lock, or none, tells a thread to end.
        self._wakeup: Optional["_thread.LockType"] = None

    def add(self, stream: "Stream") -> None:
        self._streams.append(stream)

    def begin(self, execution: int, crowded: bool) -> None:
        """A cell begins. Where the code has kept a stream's plain `write`, nothing else would tell of a print."""
        self.executing = execution
        self.crowded = crowded
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
                # No thread can be had at the limit on processes or memory: the text goes out at once, then.
                self._wakeup = None
                self.armed = False
                self.flush_all()
                return
        elif self._wakeup.locked():
            try:
                self._wakeup.release()
            except RuntimeError:
                pass  # another thread was faster
        if not self.crowded:
            for stream in self._streams:
                stream.__dict__["write"] = stream.write_plainly

    def crowd(self) -> None:
        """The code is about to start a thread."""
        self.crowded = True
        for stream in self._streams:
            stream.__dict__.pop("write", None)

    def end(self) -> None:
        """The cell is over: what its threads print from here on carries its number, and comes after what they have."""
        with self.lock:
            self.in_cell = False
            self.executing = 0
            self.crowded = True
            self.disarm()
            for stream in self._streams:
                try:
                    stream.flush()
                except (OSError, ValueError):
                    pass  # the code closed the descriptor: nothing more can be written there in this cell

    def disarm(self) -> None:
        self.armed = False
        for stream in self._streams:
            stream.__dict__.pop("write", None)

    def leave(self) -> None:
        """Has the thread end, so that this process can be forked; the next print starts another."""
        wakeup, self._wakeup = self._wakeup, None
        self.disarm()
        if wakeup is not None and wakeup.locked():
            wakeup.release()

    def forget(self) -> None:
        """After a fork: the thread is not in this process, nor are others that may have written."""
        self.disarm()
        self._wakeup = None
        self.lock = _thread.RLock()

    def flush_all(self) -> None:
        for stream in self._streams:
            try:
                stream.flush()
                stream.tagged.flush()
            except (OSError, ValueError):
                pass  # the code closed the descriptor or the stream; its next write will fail

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
    """Text on one descriptor, buffered in blocks; what C code and children write comes out of the same place."""

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
            # Looked at here: the cell of a thread cannot end before its text is where the cell's is.
            if owner == flusher.executing or not owner or not flusher.crowded or not self.tagged.possible():
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
        """The code gets a file of its own; this one would be of no use to later cells without its buffer."""
        self.flush()
        return io.FileIO(self.fileno(), "wb", closefd=False)

    def close(self) -> None:
        """Closing would end the output of every later cell; the text is flushed instead."""
        self.flush()


class Output:
    """Both streams of a kernel. `sync` makes all that was written so far come before the next frame."""

    def __init__(self, writers: Tuple[int, int], readers: Tuple[int, int]) -> None:
        self._saved = writers
        self._readers = readers
        # One call finds pipes that the host has not emptied, and standard descriptors that the code has closed.
        self._watch = select.poll()
        for fd in readers:
            self._watch.register(fd, select.POLLIN)
        for fd in (0, 1, 2):
            self._watch.register(fd, 0)
        self._flusher = Flusher()
        self.out = Stream(1, "<stdout>", self._flusher, writers[0])
        self.err = Stream(2, "<stderr>", self._flusher, writers[1])
        self._mark = b""
        self._marks = [0, 0]

    def flush_at_once(self) -> None:
        """Where there are no threads: each write goes out with the next line of Python."""
        self._flusher.arm = self._flusher.flush_all  # type: ignore[method-assign]

    def install(self) -> None:
        sys.stdout = sys.__stdout__ = self.out
        sys.stderr = sys.__stderr__ = self.err
        execution_context.on_start = self._flusher.crowd

    def new_tag(self) -> bytes:
        """A new tag of this kernel, which the host is told in HELLO."""
        tag = _new_tag()
        self.out.tagged.tag = self.err.tagged.tag = tag
        return tag

    def begin(self, mark: bytes, execution: int, crowded: bool) -> None:
        """`crowded`: threads or tasks of earlier executions may print meanwhile."""
        self._mark = mark
        self._marks = [0, 0]
        self._flusher.begin(execution, crowded)

    def flush(self) -> None:
        self._flusher.flush_all()
        libc.fflush(None)

    def sync(self, always: bool = False) -> Tuple[int, int]:
        """Flushes, and writes a marker to each stream that the host has not read to its end. Returns the markers of each so far."""
        self.flush()
        if self._mark:
            self._write_marks(dict(self._watch.poll(0)), always)
        return self._marks[0], self._marks[1]

    def _write_marks(self, events: Dict[int, int], always: bool) -> None:
        for index, reader in enumerate(self._readers):
            # An empty pipe means that the host has read everything: a mark would only cost time.
            if (always and index == 0) or events.get(reader, 0) & select.POLLIN:
                os.write(self._saved[index], self._mark)
                self._marks[index] += 1

    def end(self) -> Tuple[int, int]:
        """The last `sync` of an execution. What comes after it has no mark, until the next `begin`."""
        self._flusher.end()
        self.flush()
        events = dict(self._watch.poll(0))
        if events:
            self._write_marks(events, always=False)
            self._reopen(events)
        self._mark = b""
        return self._marks[0], self._marks[1]

    def _reopen(self, events: Dict[int, int]) -> None:
        """Gives later cells back the standard descriptors that this one has closed."""
        for fd, source in ((1, self._saved[0]), (2, self._saved[1])):
            if events.get(fd, 0) & select.POLLNVAL:
                os.dup2(source, fd)
        if events.get(0, 0) & select.POLLNVAL:
            nothing = os.open(os.devnull, os.O_RDONLY)
            if nothing != 0:
                os.dup2(nothing, 0)
                os.close(nothing)

    def rest(self) -> None:
        """Nothing is left in a buffer, and no thread of ours: this process can be forked."""
        self.flush()
        self._flusher.leave()

    def after_fork(self) -> None:
        self._flusher.forget()
        for stream in (self.out, self.err):
            stream.tagged.start_over()
