"""The libraries that an ELF file needs, and where the loader of this machine finds them."""

from __future__ import annotations

import glob
import os
import re
import struct
import subprocess
from typing import BinaryIO, Dict, Iterable, List, NamedTuple, Optional, Tuple

_PT_LOAD, _PT_DYNAMIC, _PT_INTERP = 1, 2, 3
_DT_NEEDED, _DT_STRTAB, _DT_STRSZ, _DT_RPATH, _DT_RUNPATH = 1, 5, 10, 15, 29
# More than any valid file has, so that a damaged file cannot fill the memory.
_MOST_HEADERS, _MOST_BYTES = 4096, 16 << 20


class Needs(NamedTuple):
    # Class, byte order and machine. Only files with the same values can be loaded together.
    kind: Tuple[int, int, int]
    libraries: List[str]
    folders: List[str]
    loader: Optional[str]


def needs_of(path: str) -> Optional[Needs]:
    """What a program or library needs; None for other files and files that cannot be read."""
    try:
        with open(path, "rb") as file:
            return _read(file)
    except (OSError, struct.error, ValueError, IndexError):
        return None


def _read(file: BinaryIO) -> Optional[Needs]:
    ident = file.read(16)
    if len(ident) < 16 or ident[:4] != b"\x7fELF":
        return None
    wide, order = ident[4] == 2, "<" if ident[5] == 1 else ">"
    machine = struct.unpack(order + "H", file.read(4)[2:])[0]
    file.seek(32 if wide else 28)
    start = struct.unpack(order + ("Q" if wide else "I"), file.read(8 if wide else 4))[0]
    file.seek(54 if wide else 42)
    size, count = struct.unpack(order + "HH", file.read(4))
    segments = [_segment(_at(file, start + index * size, size), wide, order) for index in range(min(count, _MOST_HEADERS))]
    kind = (ident[4], ident[5], machine)
    loader = next((_text(_at(file, at, length)) for what, at, _, length in segments if what == _PT_INTERP), None)
    dynamic = next(((at, length) for what, at, _, length in segments if what == _PT_DYNAMIC), None)
    if dynamic is None:
        return Needs(kind, [], [], loader)
    tags = _tags(_at(file, *dynamic), wide, order)
    facts = dict(tags)
    names = _at(file, _offset(facts.get(_DT_STRTAB, 0), segments), facts.get(_DT_STRSZ, 0))
    libraries = [_text(names[value:]) for tag, value in tags if tag == _DT_NEEDED]
    paths = [_text(names[value:]) for tag, value in tags if tag in (_DT_RPATH, _DT_RUNPATH)]
    return Needs(kind, libraries, [folder for path in paths for folder in path.split(":") if folder], loader)


def _segment(header: bytes, wide: bool, order: str) -> Tuple[int, int, int, int]:
    """The type of a segment, its place in the file, its address and its length in the file."""
    if wide:
        what, _, at, address, _, length = struct.unpack(order + "IIQQQQ", header[:40])
    else:
        what, at, address, _, length = struct.unpack(order + "IIIII", header[:20])
    return what, at, address, length


def _tags(data: bytes, wide: bool, order: str) -> List[Tuple[int, int]]:
    form = order + ("qQ" if wide else "iI")
    whole = len(data) - len(data) % struct.calcsize(form)
    found = []
    for tag, value in struct.iter_unpack(form, data[:whole]):
        if tag == 0:
            break
        found.append((tag, value))
    return found


def _offset(address: int, segments: List[Tuple[int, int, int, int]]) -> int:
    for what, at, start, length in segments:
        if what == _PT_LOAD and start <= address < start + length:
            return at + address - start
    raise ValueError("the address is not in any segment")


def _at(file: BinaryIO, offset: int, length: int) -> bytes:
    if length > _MOST_BYTES:
        raise ValueError("too large")
    file.seek(offset)
    return file.read(length)


def _text(data: bytes) -> str:
    return data.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")


_USUAL = ["/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib", "/lib/*-linux-*", "/usr/lib/*-linux-*"]


class Libraries:
    def __init__(self) -> None:
        self._cache = _loader_cache()
        self._kinds: Dict[str, Optional[Tuple[int, int, int]]] = {}
        self._usual = [folder for pattern in _USUAL for folder in sorted(glob.glob(pattern))]

    def find(self, name: str, needs: Needs, origin: str) -> List[str]:
        """All matching files, as the path by which a program was started decides which one is loaded.

        `origin` is the folder of the file that needs the library.
        """
        if "/" in name:
            return [name] if os.path.isabs(name) and os.path.exists(name) else []
        own = [re.sub(r"\$(ORIGIN|\{ORIGIN\})", lambda _: origin, folder) for folder in needs.folders]
        places = [os.path.join(folder, name) for folder in own if os.path.isabs(folder)]
        places += self._cache.get(name, [])
        places += [os.path.join(folder, name) for folder in self._usual]
        return [place for place in dict.fromkeys(places) if self._fits(place, needs)]

    def _fits(self, path: str, needs: Needs) -> bool:
        if path not in self._kinds:
            found = needs_of(path) if os.path.isfile(path) else None
            self._kinds[path] = found and found.kind
        return self._kinds[path] == needs.kind


def _loader_cache() -> Dict[str, List[str]]:
    """The libraries that `ldconfig` lists. Systems without it, such as those with musl, have only the usual folders."""
    for program in ("/sbin/ldconfig", "/usr/sbin/ldconfig"):
        try:
            done = subprocess.run([program, "-p"], stdin=subprocess.DEVNULL, capture_output=True, timeout=30, check=True)
        except (OSError, subprocess.SubprocessError):
            continue
        return _by_name(os.fsdecode(done.stdout).splitlines())
    return {}


def _by_name(lines: Iterable[str]) -> Dict[str, List[str]]:
    found: Dict[str, List[str]] = {}
    for line in lines:
        match = re.match(r"\s*(\S+) \(.*\) => (/.+)$", line)
        if match:
            found.setdefault(match.group(1), []).append(match.group(2))
    return found
