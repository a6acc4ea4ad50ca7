"""Writes the files of an image to stdout as a tar archive, and its progress to stderr as JSON objects, one per line."""

from __future__ import annotations

import io
import json
import os
import stat
import sys
import tarfile
import time
from typing import Any, Dict, Iterator, List, Tuple

from .contents import Contents, search_path, select

_REPORT_EVERY_S = 1.0

_PASSWD = """root:x:0:0:root:/root:/bin/sh
cella:x:1000:1000:cella:/home/cella:/bin/sh
nobody:x:65534:65534:nobody:/nonexistent:/bin/false
"""
_GROUP = "root:x:0:\ncella:x:1000:\nnogroup:x:65534:\n"
_NSSWITCH = "passwd: files\ngroup: files\nhosts: files dns\nprotocols: files\nservices: files\n"
_WRITTEN = {"/etc/passwd": _PASSWD, "/etc/group": _GROUP, "/etc/nsswitch.conf": _NSSWITCH, "/etc/hosts": "127.0.0.1 localhost\n"}
_MADE = {
    "/tmp": 0o1777,
    "/var/tmp": 0o1777,
    "/var": 0o755,
    "/root": 0o755,
    "/home/cella": 0o755,
    "/home": 0o755,
    "/etc": 0o755,
    "/proc": 0o555,
    "/sys": 0o555,
    "/dev": 0o755,
    "/run": 0o755,
}


def main(programs: List[str], packages: bool) -> None:
    contents, absent, missing = select(programs, packages)
    if absent:
        _report(absent=absent)
        sys.exit(2)
    files = [facts for facts in contents.entries.values() if stat.S_ISREG(facts.st_mode)]
    total = sum(facts.st_size for facts in files)
    version = "%d.%d.%d" % sys.version_info[:3]
    _report(version=version, python=sys.executable, path=search_path(), files=len(files), bytes=total, missing=missing)
    with os.fdopen(1, "wb") as out, tarfile.open(mode="w|", fileobj=out, format=tarfile.PAX_FORMAT) as archive:
        _write(archive, contents, total)


def _write(archive: tarfile.TarFile, contents: Contents, total: int) -> None:
    packed, reported_at = 0, time.monotonic()
    for path, made in _entries(contents):
        if made is not None:
            info, text = made
            archive.addfile(info, io.BytesIO(text))
            continue
        info = archive.gettarinfo(path, arcname=path.lstrip("/"))
        _normalize_owner(info)
        if not info.isreg():
            archive.addfile(info)
            continue
        with open(path, "rb") as file:
            archive.addfile(info, file)
        packed += info.size
        if time.monotonic() - reported_at > _REPORT_EVERY_S:
            reported_at = time.monotonic()
            _report(packed=packed, of=total)


def _entries(contents: Contents) -> Iterator[Tuple[str, Any]]:
    """All entries, sorted by path, so that folders come before their contents."""
    made: Dict[str, Tuple[tarfile.TarInfo, bytes]] = {}
    for path, mode in _MADE.items():
        made[path] = (_info(path, mode, tarfile.DIRTYPE, 0), b"")
    for path, text in _WRITTEN.items():
        made[path] = (_info(path, 0o644, tarfile.REGTYPE, len(text)), text.encode())
    for path in sorted({*contents.entries, *made}):
        yield path, made.get(path)


def _info(path: str, mode: int, kind: bytes, size: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(path.lstrip("/"))
    info.mode, info.type, info.size = mode, kind, size
    return info


def _normalize_owner(info: tarfile.TarInfo) -> None:
    """Root owns each file, everybody may read it, and it has no set-user-id bit."""
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.pax_headers = {}
    info.mtime = int(info.mtime)
    if info.issym():
        return
    info.mode = 0o755 if info.isdir() or info.mode & 0o111 else 0o644


def _report(**facts: Any) -> None:
    print(json.dumps(facts), file=sys.stderr, flush=True)


if __name__ == "__main__":
    request = json.loads(sys.argv[1])
    try:
        main(request["programs"], request["packages"])
    except BrokenPipeError:
        # The reader has closed the pipe, and knows why.
        os._exit(1)
