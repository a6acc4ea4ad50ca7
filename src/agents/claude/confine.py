#!/bin/sh
"exec" "python3" "-IS" "$0" "$@"  # a shell runs this line; to Python it is a text

# Everything that the agent's program starts runs through this: commands, hooks and stdio servers. It takes away the
# program's own variables, by which a child could talk to it, and enters a Landlock domain of its own. From there nothing
# can read the memory and descriptors of the program and of the runner, which hold a key. Any domain does that, so this one
# forbids nothing but block devices, and keeps files movable (REFER). Without Landlock, the command runs without a domain.
# "-IS": no variables and packages that a session has for its own Python.

import ctypes
import os
import sys

CREATE, ADD, RESTRICT = 444, 445, 446
MAKE_BLOCK, REFER = 1 << 11, 1 << 13
KEPT = {"CLAUDE_PROJECT_DIR", "CLAUDE_PLUGIN_ROOT", "CLAUDE_PID"}
libc = ctypes.CDLL(None, use_errno=True)


def call(*words):
    return libc.syscall(*[ctypes.c_long(word) if isinstance(word, int) else word for word in words])


def fail(what):
    sys.exit("cella: the command could not be confined: %s: %s" % (what, os.strerror(ctypes.get_errno())))


version = call(CREATE, None, 0, 1)
if version > 0:
    handled = MAKE_BLOCK | (REFER if version > 1 else 0)
    ruleset = call(CREATE, ctypes.byref(ctypes.c_uint64(handled)), 8, 0)
    if ruleset < 0:
        fail("landlock_create_ruleset")
    if version > 1:
        root = os.open("/", os.O_PATH | os.O_DIRECTORY)
        rule = REFER.to_bytes(8, sys.byteorder) + root.to_bytes(4, sys.byteorder)
        if call(ADD, ruleset, 1, rule, 0) < 0:
            fail("landlock_add_rule")
        os.close(root)
    if libc.prctl(38, 1, 0, 0, 0) < 0 or call(RESTRICT, ruleset, 0) < 0:
        fail("landlock_restrict_self")
    os.close(ruleset)

variables = {
    name: value
    for name, value in os.environ.items()
    if name in KEPT or not name.startswith(("ANTHROPIC_", "CLAUDE_"))
}
word, _, rest = sys.argv[1].partition(" ")
shell = "bash" if os.path.exists("/bin/bash") else "sh"
argv = bytes.fromhex(rest).decode().split("\0") if word == "cella-argv" else [shell, "-c", sys.argv[1]]
try:
    os.execvpe(argv[0], argv, variables)
except OSError as error:
    sys.exit("%s: %s" % (argv[0], error.strerror))
