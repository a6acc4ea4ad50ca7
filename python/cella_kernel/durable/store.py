"""Bytes that a worker writes and its parent reads: one piece of shared memory, which outlives the worker."""

from __future__ import annotations

import io
import mmap
import os
import pickle
import tempfile
from typing import Any, BinaryIO, Callable

# Linux writes and reads no more than this with one call.
_MOST_AT_ONCE = 1 << 30
# From here on a copy costs more than a mapping.
_LARGE = 1 << 18


class TooLarge(Exception):
    """What is written takes more than `limit` bytes."""


class Store:
    def __init__(self) -> None:
        if hasattr(os, "memfd_create"):
            self._fd = os.memfd_create("cella-checkpoint")
        else:
            with tempfile.TemporaryFile() as file:
                self._fd = os.dup(file.fileno())

    def write(self, offset: int, data: memoryview) -> None:
        while data:
            # At an offset of its own: the position of a descriptor is shared with every fork.
            count = os.pwrite(self._fd, data[:_MOST_AT_ONCE], offset)
            data = data[count:]
            offset += count

    def reader(self, offset: int, size: int) -> BinaryIO:
        if size < _LARGE:
            return io.BytesIO(os.pread(self._fd, size, offset))
        return io.BufferedReader(_Reader(self._fd, offset))

    def read(self, offset: int, size: int, use: Callable[[memoryview], None]) -> None:
        """Calls `use` with these bytes. Where they are many they are not copied, and gone when it returns."""
        if size < _LARGE:
            return use(memoryview(os.pread(self._fd, size, offset)))
        start = offset - offset % mmap.ALLOCATIONGRANULARITY
        with mmap.mmap(self._fd, offset - start + size, prot=mmap.PROT_READ, offset=start) as mapped:
            with memoryview(mapped) as whole, whole[offset - start :] as part:
                use(part)

    def close(self) -> None:
        os.close(self._fd)


class _Reader(io.RawIOBase):
    """From an offset on, with a position of its own."""

    def __init__(self, fd: int, offset: int) -> None:
        self._fd = fd
        self._offset = offset

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        room = memoryview(buffer)[:_MOST_AT_ONCE]
        if hasattr(os, "preadv"):
            count = os.preadv(self._fd, [room], self._offset)
        else:
            data = os.pread(self._fd, len(room), self._offset)
            count = len(data)
            room[:count] = data
        self._offset += count
        return count


class Sink:
    """The file that a pickler writes to. It counts all, and keeps it as long as there is room."""

    def __init__(self, store: Store, offset: int, room: int, limit: int) -> None:
        self._store = store
        self._offset = offset
        self._room = room
        self._limit = limit
        self.size = 0

    @property
    def kept(self) -> bool:
        return self.size <= self._room

    def write(self, data: Any) -> int:
        view = data.raw() if isinstance(data, pickle.PickleBuffer) else memoryview(data)
        start = self._offset + self.size
        self.size += view.nbytes
        if self.size > self._limit:
            raise TooLarge
        if self.kept:
            self._store.write(start, view)
        return view.nbytes
