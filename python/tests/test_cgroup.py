"""Control groups on the real file system of this machine: where they are made on version 2, and which give way.

Run from the root of the repository, as root, with any Python from 3.9:
    python3 -I -B -m unittest discover -s python/tests -t python
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
import traceback
import unittest
from typing import Callable, List, Tuple
from unittest import mock

from cella_kernel.sandbox import cgroup, linux


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


def _found() -> "cgroup.Groups | None":
    try:
        return cgroup.find()
    except cgroup.LayerError:
        return None


class Precedence(unittest.TestCase):
    """Real groups with real processes, whose processor time is measured."""

    def setUp(self) -> None:
        groups = _found()
        if groups is None or groups.precedence is None:
            self.skipTest("needs root, groups for processors, and Linux 5.15")
        self.groups = groups
        self.addCleanup(groups.remove)

    def test_one_that_computes_gives_way_until_it_stops_and_one_that_sleeps_does_not(self) -> None:
        computing, sleeping = self._started(lambda: None), self._started(lambda: time.sleep(0.01))
        self._until(lambda: self._gives_way(computing[0]))
        self.assertFalse(self._gives_way(sleeping[0]))
        os.kill(computing[1], signal.SIGSTOP)
        self._until(lambda: not self._gives_way(computing[0]))

    def test_many_that_compute_all_give_way(self) -> None:
        many = [self._started(lambda: None)[0] for _ in range(6 * (os.cpu_count() or 1))]
        self._until(lambda: all(self._gives_way(group) for group in many))

    def test_a_group_that_somebody_has_removed_does_not_keep_others_from_giving_way(self) -> None:
        gone = self.groups.make()
        self._precedence.add(gone)
        gone.remove()
        computing = self._started(lambda: None)[0]
        self._until(lambda: self._gives_way(computing))
        self._precedence.remove(gone)

    def test_no_time_passes_until_the_next_look_if_there_is_no_sandbox(self) -> None:
        self.assertIsNone(self._precedence.pause_s())

    @property
    def _precedence(self) -> cgroup.Precedence:
        assert self.groups.precedence is not None
        return self.groups.precedence

    def _started(self, step: Callable[[], None]) -> Tuple[cgroup.Group, int]:
        group = self.groups.make()
        pid = linux.clone(0, group.handle())
        if pid == 0:
            group.enter()
            while True:
                step()
        self._precedence.add(group)
        self.addCleanup(self._end, group, pid)
        return group, pid

    def _end(self, group: cgroup.Group, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        self._precedence.remove(group)
        group.remove()

    def _until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 30
        while not holds():
            self.assertLess(time.monotonic(), deadline, "it never happened")
            time.sleep(self._precedence.pause_s() or 0)
            self._precedence.update()

    def _gives_way(self, group: cgroup.Group) -> bool:
        with open(cgroup._idle_file(self.groups.version, group.folders), encoding="ascii") as file:
            return file.read().strip() == "1"


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
