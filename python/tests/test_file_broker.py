"""The file broker: how far it follows links, and what it tells of folders."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import tempfile
import time
import unittest
from unittest import mock

from cella_kernel.files import folder_ops
from cella_kernel.files.root import Root, Views
from cella_kernel.files.folder_ops import FOLDER_FLAGS, PATH_FLAGS

INSIDE = "/agent/workspace"


class Links(unittest.TestCase):
    def setUp(self) -> None:
        self.top = os.path.realpath(tempfile.mkdtemp())
        # Which knows paths that are too long for the system.
        self.addCleanup(subprocess.run, ["rm", "-rf", self.top], check=True)
        os.mkdir(os.path.join(self.top, "x"))

    def root(self) -> Root:
        root = Root({"uid": 1000, "gid": 1000, "path": self.top, "inside": INSIDE}, Views())
        self.addCleanup(root.close)
        return root

    def chain(self, links: int, step: str, times: int) -> None:
        """`l0` leads to `x` by so many links, each followed by `step` as often as asked for."""
        for number in range(links):
            following = "x" if number == links - 1 else "l%d" % (number + 1)
            start = INSIDE + "/" if number == 0 else ""
            os.symlink(start + following + step * times, os.path.join(self.top, "l%d" % number))

    def refused(self, path: str) -> None:
        for work in (lambda root: root.open(path, PATH_FLAGS), lambda root: root.make(path + "/new/folder")):
            begun = time.monotonic()
            with self.assertRaises(OSError) as caught:
                work(self.root())
            self.assertEqual(caught.exception.errno, errno.ELOOP)
            self.assertLess(time.monotonic() - begun, 2)

    def test_links_with_more_steps_than_anybody_needs_are_refused_at_once(self) -> None:
        for step in ("/.", "//", "/../x"):
            with self.subTest(step):
                self.chain(4, step, 4000 // len(step))
                try:
                    self.refused("l0")
                finally:
                    for number in range(4):
                        os.unlink(os.path.join(self.top, "l%d" % number))

    def test_links_deep_below_are_refused_at_once(self) -> None:
        above = os.open(self.top, PATH_FLAGS)
        for _ in range(1900):
            os.mkdir("d", dir_fd=above)
            below = os.open("d", PATH_FLAGS, dir_fd=above)
            os.close(above)
            above = below
        os.close(above)
        os.symlink(INSIDE + "/d" * 1900 + "/../d" * 40, os.path.join(self.top, "deep"))
        os.symlink("deep" + "/../d" * 800, os.path.join(self.top, "more"))
        os.symlink("more" + "/../d" * 800, os.path.join(self.top, "l"))
        self.refused("l")

    def test_as_many_links_as_the_system_follows_are_followed(self) -> None:
        self.chain(40, "/../x/.", 8)
        os.close(self.root().open("l0", PATH_FLAGS))
        deep = "/deep" * 63
        self.root().make("l0" + deep)
        self.assertTrue(os.path.isdir(self.top + "/x" + deep))

    def test_a_link_that_leads_nowhere_is_no_folder_to_make(self) -> None:
        os.symlink("nowhere", os.path.join(self.top, "relative"))
        os.symlink(INSIDE + "/nowhere", os.path.join(self.top, "absolute"))
        for name in ("relative", "absolute"):
            with self.assertRaises(FileNotFoundError):
                self.root().make(name + "/new")
        self.assertEqual(sorted(os.listdir(self.top)), ["absolute", "relative", "x"])

    def test_where_code_renames_all_the_time_a_path_is_walked_step_by_step(self) -> None:
        self.chain(3, "/../x", 3)
        root = self.root()
        opened = root._openat2

        def renamed(path: str, flags: int, *more: int) -> int:
            if path == "l0" and not flags & os.O_NOFOLLOW:
                raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN), path)
            return opened(path, flags, *more)

        with mock.patch.object(root, "_openat2", renamed):
            os.close(root.open("l0", PATH_FLAGS))


class Listing(unittest.TestCase):
    def test_a_folder_that_may_be_read_and_not_searched_tells_names_alone(self) -> None:
        top = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, top)
        os.mkdir(os.path.join(top, "folder"))
        os.symlink("folder", os.path.join(top, "link"))
        with open(os.path.join(top, "file"), "w") as file:
            file.write("text")
        folder = os.open(top, FOLDER_FLAGS)
        self.addCleanup(os.close, folder)
        # Root may search every folder.
        with mock.patch.object(folder_ops.os, "stat", side_effect=PermissionError):
            files, over = folder_ops.read_page(folder)
        self.assertTrue(over)
        self.assertEqual(
            sorted((entry["name"], entry["kind"], entry["size"], entry["modifiedAt"]) for entry in files),
            [("file", "file", 0, 0), ("folder", "folder", 0, 0), ("link", "link", 0, 0)],
        )


if __name__ == "__main__":
    unittest.main()
