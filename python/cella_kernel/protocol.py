"""The numbers that the host and Python agree on: frame types, descriptors, exit codes and limits.

The host has them in src/protocol/kernel-frames.ts; kernel-numbers.test.ts compares both sides.
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
# Host to the monitor of a terminal, or of a program with input.
TYPED, RESIZE, ENDED = ord("B"), ord("Z"), ord("E")
# Kernel to host.
HELLO, RESULT, DISPLAY, ANSWER, CALL, CANCEL = ord("h"), ord("r"), ord("p"), ord("q"), ord("c"), ord("x")
SNAPSHOT_TAKEN, PART, SAVED, LOADED = ord("t"), ord("v"), ord("w"), ord("l")

HEADER_BYTES = 9

# The descriptors of a kernel. The numbers are high, so that code that closes all low descriptors does not close them, and
# fixed, so that the template can build a kernel before they exist.
FD_CONTROL, FD_STDOUT, FD_STDERR, FD_STDOUT_READER, FD_STDERR_READER, FD_REGISTRATION = range(256, 262)
KERNEL_FDS = range(FD_CONTROL, FD_REGISTRATION + 1)
# The limit on open files that a process needs to become a kernel, as its descriptors are moved through high numbers.
LEAST_OPEN_FILES = 576

# Exit codes of Cella's own processes.
EXIT_FAILED = 70
EXIT_SUPERVISOR_FAILED = 71
# A kernel without memory can report nothing else.
EXIT_OUT_OF_MEMORY = 72
EXIT_SNAPSHOT_FAILED = 73
# The kernel could not be isolated or set up. It ran no code.
EXIT_NOT_ISOLATED = 74
# A program could not be started.
EXIT_NOT_STARTED = 127

MOST_SNAPSHOTS = 128
# Memory for pid 1, in addition to the limit of the code.
SUPERVISOR_MEMORY_BYTES = 32 << 20

# Output: the marker of an execution, the tag of a kernel, and a complete tagged piece.
MARKER_BYTES = 16
TAG_BYTES = 16
LARGEST_PIECE_BYTES = 4096

# One value: its bytes, its list items and dict keys in total, its levels, the decimal digits of an integer, and how many bits
# of a long integer count as one item.
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

# Calls that a kernel has open at a time; the bytes of a call, and of a call that carries a piece of a file.
MOST_CALLS = 64
LARGEST_CALL_BYTES = 2 << 20
LARGEST_FILE_CALL_BYTES = 9 << 20
LARGEST_ANSWER_BYTES = 4 << 20

# A checkpoint: its variables, the bytes of all their names, how many lost ones are listed, and the bytes of one part of a segment.
MOST_VARIABLES = 10_000
MOST_NAME_BYTES = 1 << 20
MOST_LOST = 100
PART_BYTES = 8 << 20
