"""Text of threads and tasks whose cell is over: it goes out in pieces, each with the number of its execution.

A piece is `label, execution u32, length u16, text` in one write of at most PIPE_BUF bytes, so that nothing that others
write to the same pipe comes between. The label is random: no text holds it by chance.
"""

from __future__ import annotations

import _thread
import os
from _thread import get_ident
from collections import deque
from struct import Struct
from typing import Deque, Tuple

LABEL_BYTES = 16
_HEADER = Struct("<IH")
# Of text, in one piece: what POSIX lets be written to a pipe as a whole is 4096 bytes here.
_MOST = 4096 - LABEL_BYTES - _HEADER.size
# Past this, whoever writes waits until it is out.
_MOST_WAITING = 8192


def new_label() -> bytes:
    """It begins with a byte that is in no UTF-8 text."""
    return b"\xff" + os.urandom(LABEL_BYTES - 1)


class Labelled:
    """What waits to be written so to one stream. Nothing is held while the code's own functions may run."""

    def __init__(self, fd: int, pipe: int) -> None:
        self.label = b""
        self._fd = fd
        self._pipe = pipe
        self._waiting: Deque[Tuple[int, str]] = deque()
        self._size = 0
        self._lock = _thread.allocate_lock()
        self._writer = 0

    def possible(self) -> bool:
        """Not where the code has led the descriptor elsewhere: a label means something to the host alone."""
        if not self.label:
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
        # A print by a signal's handler, in the middle of this: it is written by whoever is at it, or next time.
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
            self._write_piece(self.label + _HEADER.pack(execution, end - begin) + data[begin:end])
            begin = end

    def _write_piece(self, piece: bytes) -> None:
        while piece:
            # As a whole, but where there is no pipe, and nobody else who could write meanwhile.
            piece = piece[os.write(self._pipe, piece) :]
