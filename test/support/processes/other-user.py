"""Prints as JSON what the user who runs this can reach on the machine: sockets, files, and words in what can be read.

Standard input: `{"connect": [path…], "open": [path…], "words": [word…], "files": [path…]}`. Words are looked for in
what processes show of themselves, and in the files; they are never an argument of this program.
"""

import errno
import json
import os
import socket
import sys

asked = json.load(sys.stdin)


def attempt(work, path):
    try:
        work(path)
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
    return "ok"


def connect(path):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)


def look(path):
    if os.path.isdir(path):
        os.listdir(path)
    else:
        os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))


def readable():
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if int(pid) != os.getpid():
            yield from ("/proc/%s/%s" % (pid, name) for name in ("environ", "cmdline", "comm", "status", "maps"))
    yield from asked["files"]


def found():
    left = dict.fromkeys(asked["words"], False)
    for path in readable():
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            continue
        with os.fdopen(handle, "rb") as file:
            try:
                content = file.read()
            except OSError:
                continue
        for word in left:
            left[word] = left[word] or word.encode() in content
    return [word for word in left if left[word]]


answer = {
    "connect": [attempt(connect, path) for path in asked["connect"]],
    "open": [attempt(look, path) for path in asked["open"]],
    "found": found(),
}
print(json.dumps(answer))
