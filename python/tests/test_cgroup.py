"""Where control groups are made on version 2: on the real file system of this machine, in a group made for the test.

Run from the root of the repository, as root, with any Python from 3.9:
    python3 -I -B -m unittest discover -s python/tests -t python
"""

from __future__ import annotations

import os
import sys
import traceback
import unittest
from typing import Callable, List, Tuple
from unittest import mock

from cella_kernel.sandbox import cgroup


def _version2() -> str:
    """The folder of version 2, or nothing where no groups with a controller can be made in it."""
    for kind, _, folder in cgroup._mounts() if sys.platform == "linux" else ():
        if kind == "cgroup2" and os.access(folder, os.W_OK):
            with open(os.path.join(folder, "cgroup.controllers"), encoding="ascii") as file:
                return folder if file.read().strip() else ""
    return ""


@unittest.skipUnless(_version2(), "needs root, and a writable cgroup2 with a controller")
class Version2(unittest.TestCase):
    """A group with its controllers, as a service manager makes it, and a process in it that looks for its place."""

    def setUp(self) -> None:
        self.root = _version2()
        self.group = os.path.join(self.root, "cella-test-%d" % os.getpid())
        with open(os.path.join(self.root, "cgroup.controllers"), encoding="ascii") as file:
            there = set(file.read().split())
        # On a machine with both versions, memory and processes may belong to version 1: any controller shows the rules.
        needed = {"memory", "pids"} if {"memory", "pids"} <= there else {sorted(there)[0]}
        patch = mock.patch.object(cgroup, "_NEEDED", needed)
        patch.start()
        self.addCleanup(patch.stop)
        with open(os.path.join(self.root, "cgroup.subtree_control"), encoding="ascii") as file:
            missing = needed - set(file.read().split())
        try:
            self._enable("+", missing)
            os.mkdir(self.group)
        except OSError as error:
            self.skipTest("no groups with controllers can be made here: %s" % error)
        self.addCleanup(self._remove, missing)

    def test_a_delegated_group_has_room_made_in_it_and_holds_the_sandboxes(self) -> None:
        os.setxattr(self.group, "user.delegate", b"1")
        self.assertEqual(self._found_from_within(), (self.group, [self.group + "/cella-server"]))

    def test_one_that_starts_later_finds_the_room_that_was_made(self) -> None:
        os.setxattr(self.group, "user.delegate", b"1")
        self._found_from_within()
        place = "/cella-server"
        self.assertEqual(self._found_from_within(place), (self.group, [self.group + place]))

    def test_a_group_that_is_not_delegated_keeps_its_processes(self) -> None:
        self.assertEqual(self._found_from_within(), (self.root, [self.group]))

    def _found_from_within(self, below: str = "") -> Tuple[str, List[str]]:
        """The parent of the group that is made, and where the process is then."""

        def look() -> str:
            mounts = [one for one in cgroup._mounts() if one[0] == "cgroup2"]
            for parents, make_room in cgroup._candidates(2, mounts):
                try:
                    groups = cgroup.Groups(2, parents, make_room)
                except OSError:
                    continue
                groups.remove()
                return "%s %s" % (parents["memory"], self.root + cgroup._own_paths()[""])
            return "none"

        parent, *places = _in_child(lambda: self._write(self.group + below, "cgroup.procs", "0"), look).split()
        return parent, places

    def _write(self, folder: str, name: str, text: str) -> None:
        with open(os.path.join(folder, name), "w", encoding="ascii") as file:
            file.write(text)

    def _enable(self, sign: str, controllers: "set[str]") -> None:
        self._write(self.root, "cgroup.subtree_control", " ".join(sign + name for name in sorted(controllers)))

    def _remove(self, enabled: "set[str]") -> None:
        for folder in (self.group + "/cella-server", self.group):
            if os.path.isdir(folder):
                os.rmdir(folder)
        try:
            self._enable("-", enabled)
        except OSError:
            pass  # somebody else has come to use them


def _in_child(enter: Callable[[], None], work: Callable[[], str]) -> str:
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            enter()
            os.write(writer, work().encode())
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        said = file.read()
    os.waitpid(pid, 0)
    return said


if __name__ == "__main__":
    unittest.main()
