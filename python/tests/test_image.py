"""What goes into an image, and what never does."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from cella_image.contents import Contents
from cella_image.elf import Libraries, needs_of


class Elf(unittest.TestCase):
    def test_reads_what_the_loader_of_this_machine_reads(self) -> None:
        program = os.path.realpath(shutil.which("ls") or "/bin/ls")
        needs = needs_of(program)
        assert needs is not None
        self.assertTrue(any(name.startswith("libc.") for name in needs.libraries))
        self.assertTrue(os.path.exists(needs.loader or ""))
        said = subprocess.run(["ldd", program], stdout=subprocess.PIPE, check=True).stdout.decode()
        for name in needs.libraries:
            self.assertIn(name, said)

    def test_takes_nothing_else_for_a_program(self) -> None:
        with open(os.path.realpath(sys.executable), "rb") as file:
            whole = file.read()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "file")
            for content in (b"", b"#!/bin/sh\n", b"\x7fELF", whole[:40], b"\x7fELF" + b"\xff" * 200):
                with open(path, "wb") as file:
                    file.write(content)
                self.assertIsNone(needs_of(path))
            self.assertIsNone(needs_of(folder))
            self.assertIsNone(needs_of(path + "-none"))


class Finding(unittest.TestCase):
    def test_finds_the_libraries_of_this_python(self) -> None:
        python = os.path.realpath(sys.executable)
        needs = needs_of(python)
        assert needs is not None
        libraries = Libraries()
        for name in needs.libraries:
            self.assertTrue(libraries.find(name, needs, os.path.dirname(python)), name)
        self.assertEqual(libraries.find("libno-such.so.7", needs, "/"), [])


class Taking(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = os.path.realpath(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.contents = Contents([self.folder])

    def file(self, name: str, mode: int = 0o644) -> str:
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(name)
        os.chmod(path, mode)
        return path

    def taken(self) -> list:
        inside = self.folder + "/"
        return sorted(path[len(inside) :] for path in self.contents.entries if path.startswith(inside))

    def test_leaves_out_what_not_everybody_may_read(self) -> None:
        self.file("a.py")
        self.file("key", 0o600)
        self.file("group", 0o640)
        os.mkfifo(os.path.join(self.folder, "pipe"))
        self.contents.add_tree(self.folder)
        self.assertEqual(self.taken(), ["a.py"])

    def test_takes_links_with_what_they_point_to(self) -> None:
        self.file("real/lib.so.1")
        os.symlink("real/lib.so.1", os.path.join(self.folder, "lib.so"))
        os.symlink("../lib.so", os.path.join(self.folder, "real", "again.so"))
        self.assertTrue(self.contents.add(os.path.join(self.folder, "real", "again.so")))
        self.assertEqual(self.taken(), ["lib.so", "real", "real/again.so", "real/lib.so.1"])

    def test_follows_no_link_out_to_homes_and_the_like(self) -> None:
        outside = os.path.realpath(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, outside)
        with open(os.path.join(outside, "secret"), "w") as file:
            file.write("hush")
        for target in (os.path.join(outside, "secret"), outside, "/root", "/home", "/proc/self", "/var/log"):
            name = "link" + target.replace("/", "-")
            os.symlink(target, os.path.join(self.folder, name))
        self.file("a.py")
        self.contents.add_tree(self.folder)
        own = (self.folder, *_above(self.folder))
        for path in self.contents.entries:
            self.assertTrue(path in own or path.startswith(self.folder + "/"), path)

    def test_comes_to_an_end_with_links_in_a_circle(self) -> None:
        os.symlink("two", os.path.join(self.folder, "one"))
        os.symlink("one", os.path.join(self.folder, "two"))
        os.symlink(".", os.path.join(self.folder, "self"))
        self.file("a.py")
        self.assertFalse(self.contents.add(os.path.join(self.folder, "one")))
        self.contents.add_tree(self.folder)
        self.assertIn("a.py", self.taken())

    def test_brings_the_interpreter_of_a_script(self) -> None:
        path = self.file("script", 0o755)
        with open(path, "w") as file:
            file.write("#!/bin/sh -e\necho\n")
        self.assertTrue(self.contents.add_program(path))
        self.assertIn(os.path.realpath("/bin/sh"), self.contents.entries)
        self.assertEqual(self.contents.close(), [])
        self.assertTrue(any("libc." in one or "ld-" in one for one in self.contents.entries))


def _above(path: str) -> list:
    found = []
    while path != "/":
        path = os.path.dirname(path)
        found.append(path)
    return found


if __name__ == "__main__":
    unittest.main()
