"""Fuzzes the parsers that are written in Python. Run by `npm run test:fuzz`, with the same options."""

import argparse
import ast
import base64
import gc
import os
import random
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "..", "python"))
sys.path.insert(0, HERE)
import targets  # noqa: E402

CORPUS = os.path.join(HERE, "..", "corpus")
LEAST_PERCENT = 90
LARGEST_INPUT = 4096
MOST_S = 0.02
# Of the processor. Slower ones are tried again, and the fastest try counts: the first may be cold.
SUSPECT_S = 0.002
TRIES = 5
# Tracing slows everything down: it is done for the first inputs.
TRACED_INPUTS = 20_000
# So many are tried where lines are counted, however long they take: on a busy machine the time alone says nothing.
LEAST_COVERED = 5000
# What is held after so many inputs is what the parser needs for good.
SETTLED_AFTER = 2_000
LOOKED_AFTER_EVERY = 1_000_000
MOST_GROWN_BLOCKS = 20_000
MOST_GROWN_BYTES = 32 * 1024 * 1024
TOLD_EVERY_S = 60


def corpus_of(name):
    """One file an input; of `.txt`, one line."""
    folder = os.path.join(CORPUS, name)
    found = []
    for file in sorted(os.listdir(folder)):
        with open(os.path.join(folder, file), "rb") as opened:
            data = opened.read()
        found += [line for line in data.split(b"\n") if line] if file.endswith(".txt") else [data]
    return found


class Mutator:
    """The same inputs for a seed and a number, on every machine."""

    def __init__(self, corpus, words):
        self._corpus = corpus
        self._words = words
        self._chance = random.Random()

    def input(self, seed, number):
        self._chance.seed(seed * 1_000_003 + number)
        below = self._below
        data = bytearray(self._corpus[below(len(self._corpus))])
        for _ in range(1 + below(5)):
            at = below(len(data) + 1)
            how = below(6)
            if how == 0 and at < len(data):
                data[at] = below(256)
            elif how == 1:
                del data[at : at + 1 + below(8)]
            elif how == 2:
                data[at:at] = self._words[below(len(self._words))]
            elif how == 3:
                data[at:at] = data[at : at + 1 + below(32)]
            elif how == 4 and at < len(data):
                data[at] ^= 1 << below(8)
            else:
                other = self._corpus[below(len(self._corpus))]
                data[at:] = other[below(len(other) + 1) :]
        return bytes(data[:LARGEST_INPUT])

    def _below(self, limit):
        return int(self._chance.random() * limit)


class Growth:
    """What is held that was not held before: objects of Python, and memory of the process."""

    def __init__(self):
        self._settled = None

    def settle(self):
        self._settled = self._held()

    def look(self):
        if self._settled is None:
            return 0, 0
        blocks, size = (now - before for now, before in zip(self._held(), self._settled))
        assert blocks <= MOST_GROWN_BLOCKS and size <= MOST_GROWN_BYTES, "%d blocks, %d bytes are left" % (blocks, size)
        return max(0, blocks), max(0, size)

    @staticmethod
    def _held():
        gc.collect()
        with open("/proc/self/statm") as file:
            pages = int(file.read().split()[1])
        return sys.getallocatedblocks(), pages * os.sysconf("SC_PAGE_SIZE")


class Tracing:
    """Which lines of the parser run."""

    def __init__(self, parsers):
        self._parsers = parsers
        self._files = {module.__file__ for module, _ in parsers}
        self._ran = set()

    def begin(self):
        sys.settrace(self._trace)
        threading.settrace(self._trace)

    def end(self):
        sys.settrace(None)
        threading.settrace(None)

    def _trace(self, frame, event, _):
        if frame.f_code.co_filename not in self._files:
            return None
        if event == "line":
            self._ran.add((frame.f_code.co_filename, frame.f_lineno))
        return self._trace

    def percents(self):
        for module, functions in self._parsers:
            lines = lines_of(module, functions)
            missed = sorted(lines - {line for file, line in self._ran if file == module.__file__})
            yield module.__name__, 100 * (len(lines) - len(missed)) / len(lines), missed


def lines_of(module, functions):
    with open(module.__file__, "rb") as file:
        waiting = [compile(file.read(), module.__file__, "exec")]
    lines = set()
    while waiting:
        code = waiting.pop()
        waiting += [one for one in code.co_consts if hasattr(one, "co_lines")]
        if code.co_name in functions:
            lines |= {line for _, _, line in code.co_lines() if line is not None and line != code.co_firstlineno}
    return lines


def unlisted():
    """Functions of the parsers' files that no target counts and `NOT_PARSERS` does not name."""
    counted = {}
    for target in targets.TARGETS.values():
        for module, functions in target.parsers:
            counted.setdefault(module, set()).update(functions)
    for module, names in counted.items():
        with open(module.__file__, "rb") as file:
            tree = ast.parse(file.read())
        others = targets.NOT_PARSERS.get(module.__name__, ())
        there = set()
        for node in tree.body:
            inner = node.body if isinstance(node, ast.ClassDef) and node.name not in others else [node]
            there |= {one.name for one in [node, *inner] if isinstance(one, (ast.ClassDef, ast.FunctionDef))}
            for one in inner:
                if isinstance(one, ast.FunctionDef) and one.name not in names and one.name not in others and one.name != "__init__":
                    yield "%s: %s is in no list" % (module.__name__, one.name)
        yield from ("%s: there is no %s" % (module.__name__, name) for name in sorted({*names, *others} - there))


def timed(take, data):
    """The time that it takes, of the fastest of a few tries."""
    took = float("inf")
    for _ in range(TRIES):
        begun = time.thread_time()
        take(data)
        took = min(took, time.thread_time() - begun)
        if took < SUSPECT_S:
            break
    return took


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--one")
    options.add_argument("--lists", action="store_true")
    options.add_argument("--inputs", type=int, default=1_000_000)
    options.add_argument("--from", dest="first", type=int, default=0)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--seconds", type=float, default=float("inf"))
    options.add_argument("--covered", action="store_true")
    given = options.parse_args()
    if given.lists:
        found = list(unlisted())
        sys.stderr.write("".join(line + "\n" for line in found))
        return 1 if found else 0
    target = targets.TARGETS[given.one]()
    corpus = corpus_of(given.one)
    mutator, growth, tracing = Mutator(corpus, target.words), Growth(), Tracing(target.parsers)
    begun = told = time.monotonic()
    until, slowest, done = begun + given.seconds, 0.0, given.first
    if given.covered:
        tracing.begin()
    least = min(given.inputs, given.first + LEAST_COVERED) if given.covered else 0
    while done < least or (done < given.inputs and time.monotonic() < until):
        data = corpus[done] if done < len(corpus) else mutator.input(given.seed, done)
        try:
            took = timed(target.take, data)
            assert took < MOST_S, "it took %.3f s" % took
        except BaseException:
            name = "%s: input %d of seed %d: " % (given.one, done, given.seed)
            sys.stderr.write(name + base64.b64encode(data).decode() + "\n")
            raise
        slowest = max(slowest, took)
        done += 1
        count = done - given.first
        if count == TRACED_INPUTS:
            tracing.end()
        if count == SETTLED_AFTER:
            growth.settle()
        elif count % LOOKED_AFTER_EVERY == 0:
            growth.look()
        if count % 1000 == 0 and time.monotonic() - told > TOLD_EVERY_S:
            told = time.monotonic()
            left = (told - begun) * (given.inputs - done) / count
            sys.stderr.write("%s: %d of %d, %d s left; to go on from here: --from %d\n" % (given.one, done, given.inputs, left, done))
    tracing.end()
    blocks, size = growth.look()
    found = list(tracing.percents()) if given.covered else []
    shown = "".join("; %s %.1f %%%s" % (name, percent, "" if percent >= LEAST_PERCENT else " (not %s)" % missed) for name, percent, missed in found)
    took = "%d s (%d s of the processor)" % (time.monotonic() - begun, time.process_time())
    line = "%s: inputs %d to %d in %s, slowest %.1f ms, %d blocks and %d bytes grown%s"
    print(line % (given.one, given.first, done, took, slowest * 1000, blocks, size, shown))
    return 1 if any(percent < LEAST_PERCENT for _, percent, _ in found) else 0


if __name__ == "__main__":
    sys.exit(main())
