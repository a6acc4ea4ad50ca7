"""The numbers that the host and Python agree on: frame types, descriptors, exit codes and limits. Nothing else is here.

The host has them in src/protocol/kernel-frames.ts and kernel-limits.ts; kernel-limits.test.ts compares both sides.
"""

from __future__ import annotations

# Host to template: the first frame of a connection. Also host to pid 1 of a container.
OPEN, ATTACH = ord("O"), ord("A")
# Pid 1 of a container to host: the first frame of a connection.
JOIN = ord("j")
# Host to pid 1.
INTERRUPT, KILL, DROP_SNAPSHOT, MEASURE = ord("I"), ord("K"), ord("D"), ord("M")
# Template and pid 1 to host.
OPENED, ATTACHED, FAILED, DIED, SNAPSHOT_LOST, MEASURED = ord("o"), ord("a"), ord("f"), ord("d"), ord("g"), ord("m")
# Host to kernel.
START, EXECUTE, REQUEST, REPLY, SNAPSHOT, SAVE, LOAD = ord("S"), ord("X"), ord("Q"), ord("Y"), ord("T"), ord("V"), ord("L")
# Host to the watcher of a terminal, or of a program with input.
TYPED, RESIZE, ENDED = ord("B"), ord("Z"), ord("E")
# Kernel to host.
HELLO, RESULT, DISPLAY, ANSWER, CALL, CANCEL = ord("h"), ord("r"), ord("p"), ord("q"), ord("c"), ord("x")
SNAPSHOT_TAKEN, PART, SAVED, LOADED = ord("t"), ord("v"), ord("w"), ord("l")

HEADER_BYTES = 9

# The descriptors of a kernel. High numbers, so that code that closes everything it can count to does not hit them, and
# always the same, so that a kernel can be built before they are there.
FD_CONTROL, FD_STDOUT, FD_STDERR, FD_STDOUT_READER, FD_STDERR_READER, FD_REGISTRATION = range(256, 262)
KERNEL_FDS = range(FD_CONTROL, FD_REGISTRATION + 1)
# How many files a process must be allowed to have open to become a kernel: its descriptors pass through high numbers.
LEAST_OPEN_FILES = 576

# How our own processes exit if they cannot go on.
EXIT_FAILED = 70
EXIT_SUPERVISOR_FAILED = 71
# Without memory a kernel can report no more than this.
EXIT_OUT_OF_MEMORY = 72
EXIT_SNAPSHOT_FAILED = 73
# The kernel could not be isolated or set up, and has run no code.
EXIT_NOT_ISOLATED = 74
# A program could not be started.
EXIT_NOT_STARTED = 127

MOST_SNAPSHOTS = 128
# What pid 1 may use of memory, beside the limit of the code.
SUPERVISOR_MEMORY_BYTES = 32 << 20

# Output: the marker of an execution, the tag of a kernel, and one tagged piece as a whole.
MARKER_BYTES = 16
TAG_BYTES = 16
LARGEST_PIECE_BYTES = 4096

# One value: bytes, items of lists and keys of dicts together, levels, decimal digits of an integer, and how many bits of
# a long integer count as one item.
LARGEST_VALUE_BYTES = 8 << 20
MOST_VALUE_ITEMS = 50_000
DEEPEST_VALUE = 200
MOST_INTEGER_DIGITS = 10_000
INTEGER_ITEM_BITS = 90
LONGEST_REPR = 1 << 20

# Names of variables, classes and MIME types.
LONGEST_NAME = 255
LONGEST_MESSAGE = 1 << 16
LONGEST_TRACEBACK = 1 << 18
LONGEST_PROMPT = 1 << 16
MOST_MIME_TYPES = 100

# Calls of a kernel that are open at a time; the bytes of one, and of one that carries a piece of a file.
MOST_CALLS = 64
LARGEST_CALL_BYTES = 2 << 20
LARGEST_FILE_CALL_BYTES = 9 << 20
LARGEST_ANSWER_BYTES = 4 << 20

# A checkpoint: its variables, and the bytes of one part of a segment.
MOST_VARIABLES = 10_000
PART_BYTES = 8 << 20
