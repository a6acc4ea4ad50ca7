"""Control groups on the real file system of this machine: where they are made on version 2, and which give way.

Run from the root of the repository, as root, with any Python from 3.9:
    python3 -I -B -m unittest discover -s python/tests -t python
"""

from __future__ import annotations

import errno
import os
import sys
import tempfile
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


class _Sandbox:
    """A group whose processor time the test writes."""

    def __init__(self, folder: str) -> None:
        os.mkdir(folder)
        self.folders = {"cpu": folder, "cpuacct": folder}
        self.seconds = 0.0
        self.write("cpu.idle", "0")
        self.take(0.0)

    def take(self, seconds: float) -> None:
        self.seconds += seconds
        self.write("cpuacct.usage", "%d\n" % (self.seconds * 1e9))

    def write(self, name: str, text: str) -> None:
        with open(os.path.join(self.folders["cpu"], name), "w", encoding="ascii") as file:
            file.write(text)

    @property
    def gives_way(self) -> bool:
        with open(os.path.join(self.folders["cpu"], "cpu.idle"), encoding="ascii") as file:
            return file.read() == "1"


class Precedence(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.now = 1000.0
        for patch in (mock.patch.object(cgroup.time, "monotonic", lambda: self.now), mock.patch.object(cgroup, "_PROCESSORS", 2)):
            patch.start()
            self.addCleanup(patch.stop)
        self.all = _Sandbox(os.path.join(self.folder, "all"))
        self.precedence = cgroup.Precedence(1, self.all.folders)
        self.count = 0

    def test_one_that_computes_gives_way_until_it_stops_and_one_that_takes_little_does_not(self) -> None:
        computing, light = self._sandbox(), self._sandbox()
        self._pass(2, (computing, 1.0), (light, 0.05))
        self.assertEqual((computing.gives_way, light.gives_way), (True, False))
        self._pass(2, (computing, 0.1), (light, 0.05))
        self.assertEqual((computing.gives_way, light.gives_way), (True, False))
        self._pass(3, (light, 0.05))
        self.assertEqual((computing.gives_way, light.gives_way), (False, False))

    def test_many_that_compute_all_give_way_though_each_gets_little(self) -> None:
        many = [self._sandbox() for _ in range(20)]
        self._pass(2, *((one, 0.1) for one in many))
        self.assertTrue(all(one.gives_way for one in many))

    def test_it_rests_while_nobody_computes_and_has_no_work_without_a_sandbox(self) -> None:
        self.assertIsNone(self.precedence.pause_s())
        one = self._sandbox()
        self.precedence.update()
        self.assertEqual(self.precedence.pause_s(), cgroup._REST_S)
        self.precedence.remove(one)
        self.assertIsNone(self.precedence.pause_s())

    def test_a_group_that_is_gone_ends_nothing(self) -> None:
        computing = self._sandbox()
        with mock.patch.object(cgroup._CpuTime, "_read", side_effect=OSError(errno.ENODEV, "gone")):
            self._pass(2, (computing, 1.0))
        self.assertFalse(computing.gives_way)
        self._pass(2, (computing, 1.0))
        self.assertTrue(computing.gives_way)

    def _sandbox(self) -> _Sandbox:
        self.count += 1
        sandbox = _Sandbox(os.path.join(self.folder, str(self.count)))
        self.precedence.add(sandbox)
        return sandbox

    def _pass(self, seconds: float, *parts: Tuple[_Sandbox, float]) -> None:
        """Each sandbox takes this part of a processor."""
        until = self.now + seconds
        while self.now < until:
            self.now += cgroup._SAMPLE_S
            for sandbox, part in parts:
                sandbox.take(part * cgroup._SAMPLE_S)
                self.all.take(part * cgroup._SAMPLE_S)
            self.precedence.update()


class CpuTime(unittest.TestCase):
    def test_both_versions_are_read_in_seconds(self) -> None:
        for text, seconds in (("1500000000\n", 1.5), ("usage_usec 1500000\nuser_usec 1\n", 1.5)):
            with tempfile.NamedTemporaryFile("w") as file:
                file.write(text)
                file.flush()
                self.assertEqual(cgroup._CpuTime(file.name)._read(), seconds)


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
