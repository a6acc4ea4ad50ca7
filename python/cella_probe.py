"""Reports facts of the Python that runs it, as one line of JSON.

The host passes this text with `-c`. It runs on any Python 3, so that the host can name a version that is too old. The
argument is only for the Python of an image: a folder with the kernel's sources. The report then also has the libc, PATH and
the compiled sources. A marker precedes it, because other code of the image may write to the same output.
"""

import json
import os
import sys

facts = {"version": list(sys.version_info[:3]), "executable": sys.executable}


def package_folders():
    """The folders that the interpreter and its packages are loaded from."""
    found = []
    for folder in [sys.prefix, sys.base_prefix, sys.exec_prefix] + sys.path:
        if folder and folder != os.sep and os.path.isdir(folder) and folder not in found:
            found.append(folder)
    return found


def machine():
    name = os.uname().machine
    return "i686" if name == "x86_64" and sys.maxsize < 2**32 else name


def is_musl():
    import sysconfig

    return "musl" in (sysconfig.get_config_var("HOST_GNU_TYPE") or "") + (sysconfig.get_config_var("SOABI") or "")


def tag():
    """A name for compatible packages, such as `cp311-x86_64`. Packages for one C library do not run with another."""
    short = {"cpython": "cp", "pypy": "pp"}.get(sys.implementation.name, sys.implementation.name)
    numbers = "%d%d%s" % (sys.version_info[0], sys.version_info[1], getattr(sys, "abiflags", ""))
    return short + numbers + ("-musl-" if is_musl() else "-") + machine()


def libc():
    if not is_musl():
        name, _, version = os.confstr("CS_GNU_LIBC_VERSION").partition(" ")
        return {"name": name, "version": [int(part) for part in version.split(".")[:2]]}
    import glob
    import re
    import subprocess

    words = ""
    for loader in glob.glob("/lib/ld-musl-*.so.1"):
        words = subprocess.run([loader], stderr=subprocess.PIPE).stderr.decode("utf-8", "replace")
    found = re.search(r"Version (\d+)\.(\d+)", words)
    # The oldest version that wheels are built for.
    return {"name": "musl", "version": [int(part) for part in found.groups()] if found else [1, 1]}


def compiled(root):
    import base64
    import importlib.util
    import marshal

    found = {}
    for folder, _, names in os.walk(root):
        for name in sorted(names):
            if not name.endswith(".py"):
                continue
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                source = file.read()
            code = compile(source, path, "exec", dont_inherit=True)
            # An unchecked hash-based pyc: Python does not compare it with the source when it loads it.
            header = importlib.util.MAGIC_NUMBER + b"\1\0\0\0" + importlib.util.source_hash(source)
            data = header + marshal.dumps(code)
            at = os.path.relpath(importlib.util.cache_from_source(path), root)
            found[os.path.relpath(path, root)] = {"at": at, "code": base64.b64encode(data).decode()}
    return found


sources = sys.argv[1] if len(sys.argv) > 1 else None
if sys.version_info >= (3, 9):
    facts.update(tag=tag(), packageFolders=package_folders())
    if sources is not None:
        facts.update(machine=machine(), libc=libc(), path=os.environ.get("PATH", ""), compiled=compiled(sources))
sys.stdout.write(("" if sources is None else "\ncella-image:") + json.dumps(facts) + "\n")
