"""An empty file system that answers (a line `answer` on stdin) or not (`hang 0`, or `hang 2` for after two more requests).
Needs /dev/fuse and root.

It is over with its stdin: then every waiting call fails.
"""

import ctypes
import os
import struct
import sys
import threading

path = sys.argv[1]
fuse = os.open("/dev/fuse", os.O_RDWR)
libc = ctypes.CDLL(None, use_errno=True)
options = b"fd=%d,rootmode=40777,user_id=0,group_id=0,allow_other" % fuse
if libc.mount(b"cella-test", path.encode(), b"fuse", 0, options) != 0:
    sys.exit(os.strerror(ctypes.get_errno()))

LOOKUP, FORGET, GETATTR, INIT, OPENDIR, READDIR, RELEASEDIR, ACCESS = 1, 2, 3, 26, 27, 28, 29, 34
INTERRUPT, BATCH_FORGET = 36, 42
ENOENT, ENOSYS = 2, 38
ATTRIBUTES = struct.pack("<QII" + "QQQQQQ" + "IIIIIIIIII", 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0o40777, 2, 0, 0, 0, 4096, 0)
ANSWERS = {
    INIT: struct.pack("<IIIIHHIIHHIIIIIIII", 7, 31, 131072, 0, 12, 9, 131072, 1, 1, 0, *[0] * 8),
    GETATTR: ATTRIBUTES,
    OPENDIR: struct.pack("<QII", 1, 0, 0),
    READDIR: b"",
    RELEASEDIR: b"",
    ACCESS: b"",
}
answering = threading.Event()
answering.set()
# How many more requests are answered though it hangs.
lock = threading.Lock()
allowance = 0


def is_allowed():
    global allowance
    with lock:
        allowance -= 1
        return allowance >= 0


def serve():
    while True:
        try:
            request = os.read(fuse, 1 << 18)
        except OSError:
            return  # it was unmounted
        threading.Thread(target=answer, args=(request,), daemon=True).start()


def answer(request):
    _, what, number = struct.unpack_from("<IIQ", request)
    if what in (FORGET, BATCH_FORGET, INTERRUPT):
        return
    if not answering.is_set() and not is_allowed():
        answering.wait()
    data = ANSWERS.get(what)
    error = 0 if data is not None else -(ENOENT if what == LOOKUP else ENOSYS)
    data = data or b""
    try:
        os.write(fuse, struct.pack("<IiQ", 16 + len(data), error, number) + data)
    except OSError:
        pass  # whoever asked has given up


threading.Thread(target=serve, daemon=True).start()
print("mounted", flush=True)
for line in sys.stdin:
    word, _, count = line.partition(" ")
    if word == "hang":
        allowance = int(count)
        answering.clear()
    else:
        answering.set()
    print(line, end="", flush=True)
MNT_DETACH = 2
libc.umount2(path.encode(), MNT_DETACH)
os._exit(0)
