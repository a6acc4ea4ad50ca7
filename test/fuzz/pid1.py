"""Fuzzes what pid 1 of a sandbox parses of the code's words: the gate, and frames. Run by `npm run test:fuzz`."""

import argparse
import os
import random
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "python"))
from cella_kernel import frames, gate  # noqa: E402

CORPUS = [b'{"twin": 7}', b'{"kernel": 4294967295}', b'{"kernel": 0}', b"[" * 4000, b'{"twin":' * 400, b'{"twin": 1, "kernel": 2}']
WORDS = [b"twin", b"kernel", b'"', b"{", b"}", b": ", b"9" * 12, b"-1", b"true", b"\\u0000", b"\xff", b"[", b"1e9"]
LEAST_PERCENT = 90


def mutate(chance: random.Random) -> bytes:
    data = bytearray(chance.choice(CORPUS))
    for _ in range(chance.randrange(5)):
        at = chance.randrange(len(data) + 1)
        how = chance.randrange(4)
        if how == 0 and at < len(data):
            data[at] = chance.randrange(256)
        elif how == 1:
            del data[at : at + chance.randrange(1, 8)]
        elif how == 2:
            data[at:at] = chance.choice(WORDS)
        else:
            data[at:] = chance.choice(CORPUS)[chance.randrange(8) :]
    return bytes(data[:4096])


def take(data: bytes) -> None:
    word = gate.parse(data)
    if word is not None:
        ((kind, number),) = word.items()
        assert kind in ("twin", "kernel") and 0 <= number <= 0xFFFFFFFF, word


class Stream:
    """Frames by a pipe, cut anywhere."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()
        self.channel = frames.Channel(self.reader)
        self.out = frames.Channel(self.writer)

    def take(self, data: bytes) -> None:
        """More than a pipe holds, so that both sides go on in pieces."""
        thread = threading.Thread(target=self.out.send, args=(len(data) % 256, len(data), data))
        thread.start()
        found = None
        while found is None:
            assert self.channel.fill()
            found = self.channel.take()
        thread.join()
        assert found == (len(data) % 256, len(data), data)

    def cut(self, data: bytes) -> None:
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


def lines_of(module) -> set:
    with open(module.__file__, "rb") as file:
        waiting = [compile(file.read(), module.__file__, "exec")]
    lines = set()
    while waiting:
        code = waiting.pop()
        waiting += [one for one in code.co_consts if hasattr(one, "co_lines")]
        if code.co_name in ("parse", "take", "fill"):
            lines |= {line for _, _, line in code.co_lines() if line is not None and line != code.co_firstlineno}
    return lines


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--inputs", type=int, default=1_000_000)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--seconds", type=float, default=float("inf"))
    given = options.parse_args()
    ran = set()

    def trace(frame, event, _):
        if event == "line":
            ran.add((frame.f_code.co_filename, frame.f_lineno))
        return trace if frame.f_code.co_filename in (gate.__file__, frames.__file__) or event == "call" else None

    stream, until, slowest, done = Stream(), time.monotonic() + given.seconds, 0.0, 0
    sys.settrace(trace)
    threading.settrace(trace)
    for done in range(given.inputs):
        if done == 3000:
            sys.settrace(None)
            threading.settrace(None)
        data = CORPUS[done] if done < len(CORPUS) else mutate(random.Random(given.seed * 1_000_003 + done))
        begun = time.perf_counter()
        took = 0.0
        for _ in range(5):
            take(data)
            took = time.perf_counter() - begun
            if took < 0.02:
                break
            begun = time.perf_counter()
        assert took < 0.02, "input %d of seed %d took %.3f s" % (done, given.seed, took)
        slowest = max(slowest, took)
        if done % 1000 == 0:
            stream.take(data)
            stream.take(b"x" * 300_000)
            Stream().cut(data[:500])
        if time.monotonic() > until:
            break
    sys.settrace(None)
    shown, low = [], False
    for module in (gate, frames):
        lines = lines_of(module)
        hit = {line for file, line in ran if file == module.__file__}
        percent = 100 * len(lines & hit) / len(lines)
        low = low or percent < LEAST_PERCENT
        shown.append("%s %.1f %%%s" % (module.__name__, percent, " (not %s)" % sorted(lines - hit) if percent < LEAST_PERCENT else ""))
    print("pid1: %d inputs, slowest %.1f ms; %s" % (done + 1, slowest * 1000, "; ".join(shown)))
    return 1 if low else 0


if __name__ == "__main__":
    sys.exit(main())
