"""The parsers in Python that code or a client can reach."""

import json
import os
import socket
import threading
import warnings

import cella_skill_reader as reader
from cella_kernel import fd_passing, frames
from link_target import Links

# Every how many inputs the slower ways are tried too.
SELDOM = 1000


class Pid1:
    """What pid 1 of a sandbox takes from code: words at the gate, with descriptors or without, and frames."""

    words = [b"snapshot", b"kernel", b'"', b"{", b"}", b": ", b"9" * 12, b"-1", b"true", b"\\u0000", b"\xff", b"[", b"1e9"]
    parsers = [(fd_passing, ("parse_registration", "receive_registration")), (frames, ("take", "fill"))]

    def __init__(self):
        self._taken = 0
        self._stream = Stream()
        self._theirs, self._gate = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._gate.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)

    def take(self, data):
        word = fd_passing.parse_registration(data)
        if word is not None:
            ((kind, number),) = word.items()
            assert kind in ("snapshot", "kernel") and 0 <= number <= 0xFFFFFFFF, word
        if self._taken % SELDOM == 0:
            self._hear(data)
            self._stream.take(data)
            self._stream.take(b"x" * 300_000)
            Stream().cut(data[:500])
        self._taken += 1

    def _hear(self, data):
        """No more of a message than there is room for, and each descriptor once."""
        count = len(data) % 5
        socket.send_fds(self._theirs, [data or b"x"], [self._theirs.fileno()] * count)
        heard, descriptors, pid = fd_passing.receive_registration(self._gate, 4096)
        assert heard == (data or b"x") and len(descriptors) == count and pid == os.getpid()
        for fd in descriptors:
            os.close(fd)


class Stream:
    """Frames by a pipe, cut anywhere."""

    def __init__(self):
        self.reader, self.writer = os.pipe()
        self.channel = frames.Channel(self.reader)
        self.out = frames.Channel(self.writer)

    def take(self, data):
        """More than a pipe holds, so that both sides go on in pieces."""
        thread = threading.Thread(target=self.out.send, args=(len(data) % 256, len(data), data))
        thread.start()
        found = None
        while found is None:
            assert self.channel.fill()
            found = self.channel.take()
        thread.join()
        assert found == (len(data) % 256, len(data), data)

    def cut(self, data):
        """A frame in small pieces, and one that never ends."""
        for piece in (frames.HEADER.pack(len(data), 1, 2)[:3], frames.HEADER.pack(len(data), 1, 2)[3:] + data):
            os.write(self.writer, piece)
            assert self.channel.fill()
            whole = self.channel.take()
        assert whole == (1, 2, data) and self.channel.take() is None
        os.write(self.writer, frames.HEADER.pack(0, 3, 4) + frames.HEADER.pack(2, 5, 6) + b"x")
        assert self.channel.fill() and self.channel.take() == (3, 4, b"") and self.channel.take() is None
        os.write(self.writer, b"y")
        assert self.channel.fill() and self.channel.take() == (5, 6, b"xy")
        os.write(self.writer, frames.HEADER.pack(1000, 1, 2) + data)
        os.close(self.writer)
        assert not self.channel.fill() and self.channel.take() is None
        assert not self.channel.fill()
        os.close(self.reader)


class Skills:
    """Sources of skills, which code and clients save."""

    words = [b"async def run(", b"):\n", b" pass", b'"""', b"\\N{", b"\x0c", b"\r", b"\xe2\x80\xa8", b"\xed\xa0\x80", b"(", b"lambda *a, b=1: ", b"*", b"/,", b"f'{", b"}'", b": int = ", b"\\", b"\n    "]
    parsers = [
        (
            reader,
            ("read", "parse", "find_run", "parameters_of", "parameter", "as_text", "cut", "docstring_place", "place", "answer", "reply"),
        )
    ]

    def __init__(self):
        warnings.simplefilter("ignore")

    def take(self, data):
        try:
            # As JSON brings it: also halves of characters.
            source = data.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            source = data.decode("latin-1")
        told = json.loads(reader.reply(source))
        assert len(told) == 1
        place = told["read"]["docstring"] if "read" in told else None
        if place is not None:
            units = source.encode("utf-16-le")
            text = units[2 * place["start"] : 2 * place["end"]].decode("utf-16-le")
            assert text.strip()[-1] in "\"')", text


TARGETS = {"pid1": Pid1, "skills": Skills, "links": Links}

# Functions and classes in the files of parsers that read nothing of others. All other functions are counted by a target.
NOT_PARSERS = {
    "cella_kernel.fd_passing": ("send", "send_ready", "is_ready", "receive", "_read_line", "register"),
    "cella_kernel.frames": ("send", "failure_fields", "send_failure", "report_failure", "refuse", "drain"),
    "cella_skill_reader": ("confine", "main"),
    "cella_kernel.files.root": ("Root", "Views"),
    "cella_kernel.files.folder_ops": ("_Removal", "rename_to_free", "_rename_folder", "unlink", "remove_some", "_remove_entry", "_scan", "_open_to_empty"),
}
