"""What can be saved and not loaded, and segments that are not what they were."""

from __future__ import annotations

import os
import tempfile
from typing import Dict

from .test_durable import Case, Kernel, needs_cloudpickle
from .test_durable_hostile import OTHERS


class OnLoad(Case):
    """What can be saved and not loaded is found when it is saved."""

    def told(self, body: str, seconds: float = 20.0) -> str:
        code = (
            "import os, sys, time\nclass Bad:\n    def __init__(self): self.a = 1\n"
            "    def __setstate__(self, state):\n        %s" % body
        )
        self.again(code, OTHERS % "bad = Bad()", seconds=seconds)
        self.assertEqual((sorted(self.lost()), self.loaded["lost"]), (["bad"], []))
        return self.lost()["bad"]

    def test_one_that_raises(self) -> None:
        self.assertEqual(self.told("raise ValueError('no')"), "it could be saved, but not loaded: ValueError: no")
        self.assertEqual(self.told("sys.exit(3)"), "it could be saved, but not loaded: SystemExit: 3")

    def test_one_that_hangs(self) -> None:
        self.assertRegex(
            self.told("time.sleep(60)", seconds=2), "it could be saved, but not loaded: loading it took longer than"
        )

    def test_one_that_ends_the_process(self) -> None:
        self.assertEqual(
            self.told("os._exit(1)"), "it could be saved, but not loaded: loading it ended the process (exit code 1)"
        )

    def test_one_that_takes_all_memory(self) -> None:
        self.assertEqual(self.told("self.x = bytearray(10 << 30)"), "it could be saved, but not loaded: MemoryError")

    def test_one_that_says_it_is_a_name_that_is_not_there(self) -> None:
        self.save(
            Kernel("class Single:\n    def __reduce__(self): return 'ONLY'\nONLY = Single()\nheld = [ONLY]\nx = 1")
        )
        self.assertIn("it could be saved, but not loaded", self.lost()["ONLY"])
        self.assertIn("x", self.report["saved"])

    def test_those_that_share_something_with_it_are_saved(self) -> None:
        code = (
            "class Bad:\n    def __setstate__(self, state): raise ValueError('no')\nhidden = [1]\n"
            "bad = Bad(); bad.h = hidden\na = [hidden]; b = (hidden,)\ndel hidden"
        )
        kernel = self.again(code)
        self.assertEqual(sorted(self.lost()), ["bad"])
        self.assert_all(kernel, "a[0] is b[0]")

    def test_a_copy_that_was_loaded_for_a_test_does_not_end_as_if_it_were_the_original(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "file")
            kernel = Kernel(
                "import os\nclass Owner:\n    def __init__(self): open(%r, 'w').close()\n"
                "    def __del__(self): os.unlink(%r)\nowner = Owner()" % (path, path)
            )
            self.save(kernel)
            self.assertTrue(os.path.exists(path))
            self.assertIn("owner", self.report["saved"])
            kernel.run("del owner")

    @needs_cloudpickle
    def test_a_class_that_can_only_be_made_by_its_statement_comes_back_from_it(self) -> None:
        kernel = self.again(
            "class Base:\n    def __init_subclass__(cls, *, tag, **rest):\n"
            "        super().__init_subclass__(**rest)\n        cls.tag = tag\n"
            "class Child(Base, tag='t'):\n    def f(self): return self.tag\nc = Child()"
        )
        self.assertEqual((kernel.get("c.f()"), self.loaded["sources"]), ("t", ["Child"]))
        self.assertIn("tag", self.report["sources"][0]["reason"])


class Damaged(Case):
    def test_a_damaged_segment_loses_its_own_names_alone(self) -> None:
        segments = self.save(
            Kernel(
                "import math\na = [1]; b = {'x': 2}; c = 'text'; d = [b]\ndef f(): return 1\nclass C: pass\n"
                "obj = C()"
            )
        )
        for index, (header, data) in enumerate(segments):
            if header["kind"] == "pickle":
                for broken in (
                    b"",
                    data[: len(data) // 2],
                    b"\x80\x05cos\n_exit\nnot here",
                    b"\x00" + data,
                    b"\x80\x05\x8e" + b"\xff" * 8,
                ):
                    kernel = self.load([*segments[:index], (header, broken), *segments[index + 1 :]])
                    lost = {item["name"] for item in self.loaded["lost"]}
                    needed = {"b": {"d"}, "C": {"obj"}}.get(header["names"][0], set())
                    by_source = {"f", "C"} & set(header["names"])
                    self.assertEqual(
                        lost, (set(header["names"]) | needed) - by_source - ({"obj"} if by_source else set()), header
                    )
                    self.assertEqual(set(kernel.names) & lost, set())

    def test_data_that_raises_anything_loses_its_own_names_alone(self) -> None:
        segments = self.save(Kernel("a = 1; b = 2"))
        bodies: Dict[str, bytes] = {
            "SystemExit": b"csys\nexit\n)R.",
            "KeyboardInterrupt": b"c_signal\ndefault_int_handler\n(I2\nNtR.",
            "RecursionError": b"cbuiltins\neval\n(V(lambda f: f(f))(lambda f: f(f))\ntR.",
            "MemoryError": b"cbuiltins\nbytearray\n(I9000000000000000000\ntR.",
            "ZeroDivisionError": b"cbuiltins\ndivmod\n(I1\nI0\ntR.",
        }
        for name, body in bodies.items():
            kernel = self.load([(header, body if header["names"] == ["a"] else data) for header, data in segments])
            self.assertEqual(kernel.get("b"), 2)
            self.assertRegex(self.loaded["lost"][0]["reason"], name)

    def test_a_segment_of_a_kind_that_is_not_known_is_told(self) -> None:
        self.save(Kernel())
        self.load([({"kind": "hologram", "names": ["h"], "portable": True}, b"{}")])
        self.assertEqual(
            self.loaded["lost"],
            [{"name": "h", "reason": "it was saved in a format ('hologram') that this version does not know"}],
        )

    @needs_cloudpickle
    def test_a_definition_whose_code_is_damaged_comes_back_from_its_source(self) -> None:
        segments = self.save(Kernel("def f(): return 1\nclass C:\n    def m(self): return f()\nc = C()"))
        kernel = self.load(
            [
                (header, b"" if header["kind"] == "pickle" and not header["portable"] else data)
                for header, data in segments
            ]
        )
        self.assertEqual(
            (kernel.get("c.m()"), sorted(self.loaded["sources"]), self.loaded["lost"]), (1, ["C", "f"], [])
        )
