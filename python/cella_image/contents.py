"""Selects the files of this machine for an image: this Python, its packages, a shell with common programs, and their data.

Files that not everybody may read and home folders are never included.
"""

from __future__ import annotations

import os
import shutil
import site
import ssl
import stat
import sys
import sysconfig
from typing import Callable, Dict, Iterable, List, NamedTuple

from .elf import Libraries, needs_of

# Folders of users and services, and temporary ones.
_NEVER = ("/boot", "/dev", "/home", "/media", "/mnt", "/proc", "/root", "/run", "/srv", "/sys", "/tmp", "/var")
_MOST_LINKS = 40


class Contents:
    def __init__(self, own: Iterable[str]) -> None:
        """`own`: folders that are included even inside `_NEVER`."""
        self._own = tuple(os.path.realpath(folder) for folder in own) + tuple(own)
        self.libraries = Libraries()
        self.entries: Dict[str, os.stat_result] = {}

    def add(self, path: str) -> bool:
        """Adds a file, a folder without its contents, or a link with its target. Returns False if it is not included."""
        waiting = [part for part in path.split("/") if part]
        here, links = "/", 0
        while waiting:
            part = waiting.pop(0)
            if part in (".", ".."):
                here = here if part == "." else os.path.dirname(here)
                continue
            here = os.path.join(here, part)
            facts = self._look(here)
            if facts is None:
                return False
            self.entries[here] = facts
            if stat.S_ISLNK(facts.st_mode):
                links += 1
                if links > _MOST_LINKS:
                    return False
                target = os.readlink(here)
                waiting = [piece for piece in target.split("/") if piece] + waiting
                here = "/" if target.startswith("/") else os.path.dirname(here)
        return True

    def add_tree(self, folder: str, skip: Callable[[str], bool] = lambda path: False) -> None:
        if not self.add(folder):
            return
        waiting = [os.path.realpath(folder)]
        seen = set(waiting)
        while waiting:
            with os.scandir(waiting.pop()) as found:
                for entry in sorted(found, key=lambda one: one.name):
                    if skip(entry.path) or not self.add(entry.path) or not entry.is_dir():
                        continue
                    place = os.path.realpath(entry.path)
                    if place not in seen and self._is_included(place):
                        seen.add(place)
                        waiting.append(place)

    def add_program(self, path: str) -> bool:
        """Adds a program, and the interpreter that its first line names."""
        if not self.add(path):
            return False
        with open(path, "rb") as file:
            first = file.readline(256)
        if first.startswith(b"#!"):
            words = os.fsdecode(first[2:]).split()
            if words and os.path.isabs(words[0]) and words[0] != path:
                self.add(words[0])
        return True

    def close(self) -> List[str]:
        """Adds all libraries that the files need. Returns the names of those that this machine lacks."""
        missing: Dict[str, None] = {}
        waiting, seen = list(self.entries), set()
        while waiting:
            path = waiting.pop()
            if path in seen:
                continue
            seen.add(path)
            facts = self.entries[path]
            if not stat.S_ISREG(facts.st_mode) or not (".so" in path or facts.st_mode & 0o111):
                continue
            needs = needs_of(path)
            if needs is None:
                continue
            before = len(self.entries)
            for name in needs.libraries + ([needs.loader] if needs.loader else []):
                places = self.libraries.find(name, needs, os.path.dirname(path))
                if not [place for place in places if self.add(place)]:
                    missing[name] = None
            if len(self.entries) > before:
                waiting.extend(list(self.entries)[before:])
        return sorted(missing)

    def _look(self, path: str):
        if not self._is_included(path):
            return None
        try:
            facts = os.lstat(path)
        except OSError:
            return None
        if stat.S_ISDIR(facts.st_mode) or stat.S_ISLNK(facts.st_mode):
            return facts
        return facts if stat.S_ISREG(facts.st_mode) and facts.st_mode & stat.S_IROTH else None

    def _is_included(self, path: str) -> bool:
        # The parents of `own` folders are included too, without their other contents.
        if any(path == one or path.startswith(one + "/") or one.startswith(path + "/") for one in self._own):
            return True
        return not any(path == one or path.startswith(one + "/") for one in _NEVER)


_SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_COMMON = """
sh bash
[ arch b2sum base32 base64 basename cat chmod cksum comm cp csplit cut date dd df dirname du echo env expand expr
factor false fmt fold head id install join link ln logname ls md5sum mkdir mkfifo mktemp mv nice nl nohup nproc numfmt
od paste printenv printf pwd readlink realpath rm rmdir seq sha1sum sha224sum sha256sum sha384sum sha512sum shuf sleep
sort split stat stdbuf stty sum sync tac tail tee test timeout touch tr true truncate tsort tty uname unexpand uniq
unlink wc whoami yes
awk mawk gawk sed grep egrep fgrep find xargs which diff cmp patch less more file
tar gzip gunzip zcat bzip2 bunzip2 xz unxz zstd zip unzip
ps kill pgrep free uptime getent locale ldconfig clear tput bc jq
git rg
""".split()

# Public data that programs and packages find by its path.
_DATA_TREES = ["/usr/share/zoneinfo", "/usr/lib/locale/C.utf8", "/usr/lib/locale/C.UTF-8", "/lib/terminfo", "/usr/share/matplotlib", "/usr/share/git-core/templates"]
_DATA_FILES = """
/etc/ld.so.cache /etc/ld.so.conf /etc/ssl/openssl.cnf /etc/ssl/cert.pem /etc/ssl/certs/ca-certificates.crt
/etc/pki/tls/certs/ca-bundle.crt /usr/lib/ssl/cert.pem /usr/lib/ssl/openssl.cnf /etc/mime.types /etc/protocols
/etc/services /etc/os-release /usr/share/misc/magic.mgc /etc/matplotlibrc
""".split()
# Left out of zoneinfo: copies of all zones, and the zone of this machine.
_NO_ZONES = ("right", "posix", "localtime", "posixrules")
# Libraries that programs load by name at run time.
_LOADED_LATER = ["libgcc_s.so.1", "libnss_files.so.2", "libnss_dns.so.2"]
# Libraries for Node and coding agents, whose programs are mounted and not part of the image.
_FOR_AGENTS = ["libstdc++.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libatomic.so.1"]


class Selection(NamedTuple):
    contents: Contents
    # Requested programs that this machine lacks.
    absent: List[str]
    # Required libraries that this machine lacks.
    missing: List[str]


def select(programs: Iterable[str], packages: bool) -> Selection:
    library, package_folders = _library(), _package_folders()
    places = [os.path.dirname(sys.executable), sysconfig.get_config_var("LIBDIR") or "/usr/lib"]
    contents = Contents([*library, *(package_folders if packages else []), *places])
    contents.add_program(sys.executable)
    for name in ("python3", "python", "python%d.%d" % sys.version_info[:2]):
        _add_if_same_python(contents, os.path.join(os.path.dirname(sys.executable), name))
    contents.add(os.path.join(sys.prefix, "pyvenv.cfg"))
    for folder in library:
        contents.add_tree(folder, lambda path: _left_out(path, library, package_folders))
    for folder in package_folders if packages else []:
        contents.add_tree(folder)
    for name in _COMMON:
        _add_program(contents, name)
    absent = [name for name in programs if not _add_program(contents, name)]
    _add_data(contents)
    return Selection(contents, absent, contents.close())


def search_path() -> str:
    own = os.path.dirname(sys.executable)
    return _SEARCH_PATH if own in _SEARCH_PATH.split(":") else own + ":" + _SEARCH_PATH


def _library() -> List[str]:
    paths = [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), os.path.dirname(os.__file__)]
    return _folders(paths)


def _package_folders() -> List[str]:
    return _folders([sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), *site.getsitepackages()])


def _folders(paths: Iterable[str]) -> List[str]:
    return [path for path in dict.fromkeys(paths) if path and os.path.isdir(path)]


def _left_out(path: str, library: List[str], package_folders: List[str]) -> bool:
    """Parts of the standard library to leave out: its tests, files for compiling C, and packages, which are added apart."""
    folder, name = os.path.split(path)
    if path in package_folders or name in ("site-packages", "dist-packages"):
        return True
    return folder in library and (name == "test" or name.startswith("config-"))


def _add_if_same_python(contents: Contents, path: str) -> None:
    if os.path.realpath(path) == os.path.realpath(sys.executable):
        contents.add(path)


def _add_program(contents: Contents, name: str) -> bool:
    path = name if os.path.isabs(name) else shutil.which(name, path=_SEARCH_PATH)
    return path is not None and os.path.isfile(path) and contents.add_program(path)


def _add_data(contents: Contents) -> None:
    certificates = ssl.get_default_verify_paths()
    for path in [*_DATA_FILES, certificates.openssl_cafile]:
        contents.add(path)
    if os.path.isdir("/etc/ld.so.conf.d"):
        contents.add_tree("/etc/ld.so.conf.d")
    for folder in _DATA_TREES:
        contents.add_tree(folder, lambda path: os.path.basename(path) in _NO_ZONES)
    needs = needs_of(sys.executable)
    for name in [*_LOADED_LATER, *_FOR_AGENTS] if needs else []:
        for path in contents.libraries.find(name, needs, "/"):
            contents.add(path)
