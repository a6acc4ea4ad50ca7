"""Links that code has made below the folder of its session, as the host resolves them."""

import errno
import os
import shutil
import struct
import tempfile

from cella_kernel.files import folder_ops, root

# Every how many inputs the links are made, and resolved by Linux, too.
SELDOM = 500
INSIDE = "/home/me/work"
# What the resolver may do at most, whatever the links are.
MOST_LOOKS = 5000
DIRENT = struct.Struct("=QqHB")


class Links:
    """Each line of an input is a path, or a link: `path -> target`. The paths are resolved."""

    words = [b"/", b"..", b"../", b"./", b"//", b"a", b"a/", b"\n", b" -> ", b"\na -> ", b"\nb -> a", INSIDE.encode(), INSIDE.encode() + b"/", b"\n/a", b"x" * 300, b"a/" * 200, b"\xff", b"\0"]
    parsers = [
        (root, ("without_links", "_names", "_below")),
        (folder_ops, ("read_page", "_parse_names", "_listed", "entry_of", "_entry", "_kind")),
    ]

    def __init__(self):
        self._taken = 0

    def take(self, data):
        links, paths = {}, []
        for line in data.decode("utf-8", "surrogateescape").split("\n"):
            at, arrow, target = line.partition(" -> ")
            if arrow and target and "\0" not in line:
                links["/".join(name for name in at.split("/") if name not in ("", "."))] = target
            else:
                paths.append(line)
        found = [(path, self._resolved(path, links)) for path in paths]
        if self._taken % SELDOM == 0:
            self._compare(links, found)
        self._taken += 1

    @staticmethod
    def _resolved(path, links):
        looks = 0

        def link_at(at):
            nonlocal looks
            looks += 1
            assert looks <= MOST_LOOKS, "it looks without end"
            assert not at.startswith("/") and ".." not in at.split("/"), at
            return links.get(at)

        try:
            found = root.LinkResolver(link_at, INSIDE).without_links(path)
        except OSError as error:
            assert error.errno in (errno.EXDEV, errno.ELOOP), error
            return None
        names = found.split("/") if found else []
        assert not {"", ".", ".."} & set(names), found
        # No part of it is a link.
        assert not any("/".join(names[: count + 1]) in links for count in range(len(names))), found
        return found

    def _compare(self, links, found):
        """With real links: what Linux finds is the same, and a listing has all of their names."""
        folder = os.path.realpath(tempfile.mkdtemp(prefix="cella-fuzz-"))
        try:
            made = self._make(folder, links)
            for _, place in found:
                self._touch(folder, place)
            self._list(folder)
            self._read_names(folder, [os.fsencode(path).split(b"\0")[0] for path, _ in found])
            if made != len(links):
                return
            for path, expected in found:
                real = self._realpath(folder, path)
                if expected is not None and real is not None:
                    assert real == expected, (path, expected, real)
        finally:
            shutil.rmtree(folder)

    @staticmethod
    def _make(folder, links):
        made = 0
        for at, target in sorted(links.items()):
            whole = os.path.join(folder, at)
            try:
                # As the code would write it, for this folder.
                if target == INSIDE or target.startswith(INSIDE + "/"):
                    target = folder + target[len(INSIDE) :]
                # Never through another link.
                assert os.path.realpath(os.path.dirname(whole)) == os.path.dirname(whole)
                os.makedirs(os.path.dirname(whole), exist_ok=True)
                os.symlink(target, whole)
                made += 1
            except (OSError, ValueError, AssertionError):
                pass  # a name that cannot be, or that another link has taken
        return made

    @staticmethod
    def _touch(folder, place):
        """A file where a path leads, so that Linux finds it."""
        try:
            whole = os.path.join(folder, place or ".")
            assert os.path.realpath(os.path.dirname(whole)) == os.path.dirname(whole)
            os.makedirs(os.path.dirname(whole), exist_ok=True)
            os.close(os.open(whole, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        except (OSError, ValueError, AssertionError):
            pass  # a name that cannot be, or that is there

    @staticmethod
    def _realpath(folder, path):
        """None if it leads out, or in circles, or if there is no such place and Linux does not say what it would be."""
        try:
            real = os.path.realpath(folder + "/" + path, strict=True)
        except (OSError, ValueError):
            return None
        if real != folder and not real.startswith(folder + "/"):
            return None
        return real[len(folder) + 1 :]

    @staticmethod
    def _list(folder):
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            files, last = folder_ops.read_page(opened)
        finally:
            os.close(opened)
        names = sorted(os.fsencode(name).decode("utf-8", "replace") for name in os.listdir(folder))
        assert not last or sorted(file["name"] for file in files) == names, (files, names)

    @staticmethod
    def _read_names(folder, names):
        """Entries as Linux gives them; the names may be those of files that are gone."""
        rows = []
        for number, name in enumerate(names):
            length = DIRENT.size + len(name) + 1
            rows.append(DIRENT.pack(1, 1, length, number % 12) + name + b"\0")
        read = list(folder_ops._parse_names(b"".join(rows)))
        assert read == [(name, number % 12) for number, name in enumerate(names) if name not in (b".", b"..")], names
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for name, kind in read:
                told = folder_ops._listed(opened, name, kind)
                assert told is None or told["kind"] in ("file", "folder", "link", "other"), told
        finally:
            os.close(opened)
