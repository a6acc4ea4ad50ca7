"""A namespace saved and loaded, as the kernel does it; the other files `test_durable_*` share what is here.

Run from the root of the repository, with any Python from 3.9, with or without cloudpickle, numpy and pandas:
    python3 -I -B -m unittest discover -s python/tests -t python -p 'test_durable*.py'
"""

from __future__ import annotations

import builtins
import importlib.util
import json
import os
import pickle
import subprocess
import sys
import unittest
import warnings
from types import ModuleType
from typing import Any, Dict, List, Tuple

from cella_kernel.durable.load import load
from cella_kernel.durable.save import save

Segments = List[Tuple[Dict[str, Any], bytes]]
_PACKAGES = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def has(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


needs_cloudpickle = unittest.skipUnless(has("cloudpickle"), "without cloudpickle closures and lambdas are lost")
needs_numpy = unittest.skipUnless(has("numpy"), "needs numpy")
needs_pandas = unittest.skipUnless(has("pandas"), "needs pandas")


class Kernel:
    """What a checkpoint needs of a kernel: cells that run in the namespace of `__main__`, and their texts."""

    def __init__(self, *cells: str) -> None:
        self.main = ModuleType("__main__")
        self.names = self.main.__dict__
        self.names["__builtins__"] = builtins
        self.cells: Dict[str, str] = {}
        self.run(*cells)

    def run(self, *cells: str) -> "Kernel":
        sys.modules["__main__"] = self.main
        for text in cells:
            file = "<cell %d>" % (len(self.cells) + 1)
            self.cells[file] = text
            exec(compile(text, file, "exec", 0, True), self.names)
        return self

    def get(self, expression: str) -> Any:
        sys.modules["__main__"] = self.main
        return eval(expression, self.names)


_PROGRAM = """
def program(names):
    import json, pickle, sys
    path, segments, python, expressions = pickle.load(sys.stdin.buffer)
    sys.path[:0] = path
    from cella_kernel.durable.load import load
    told = load(names, segments, python=python)
    print(json.dumps([told, [eval(text, names) for text in expressions]]))
program(globals())
"""


class Case(unittest.TestCase):
    def setUp(self) -> None:
        main, folder, path = sys.modules["__main__"], os.getcwd(), list(sys.path)
        self.addCleanup(sys.modules.__setitem__, "__main__", main)
        self.addCleanup(os.chdir, folder)
        self.addCleanup(sys.path.__setitem__, slice(None), path)
        # What the cells leave open is theirs.
        quiet = warnings.catch_warnings()
        quiet.__enter__()
        self.addCleanup(quiet.__exit__, None, None, None)
        warnings.simplefilter("ignore")
        self.report: Dict[str, Any] = {}
        self.loaded: Dict[str, Any] = {}

    def save(self, kernel: Kernel, **options: Any) -> Segments:
        segments: Segments = []
        settings: Dict[str, Any] = {"limit_bytes": 64 << 20, "seconds": 20.0, **options}
        sys.modules["__main__"] = kernel.main
        self.report = save(
            kernel.names, kernel.cells, lambda header, data: segments.append((header, bytes(data))), **settings
        )
        return segments

    def load(self, segments: Segments, **options: Any) -> Kernel:
        kernel = Kernel()
        sys.modules["__main__"] = kernel.main
        self.loaded = load(kernel.names, segments, python=options.pop("python", self.report["python"]), **options)
        return kernel

    def again(self, *cells: str, **options: Any) -> Kernel:
        """The kernel that comes back."""
        return self.load(self.save(Kernel(*cells), **options))

    def lost(self) -> Dict[str, str]:
        return {item["name"]: item["reason"] for item in self.report["lost"]}

    def assert_all_saved(self) -> None:
        self.assertEqual((self.report["lost"], self.loaded["lost"]), ([], []))

    def assert_all(self, kernel: Kernel, *expressions: str) -> None:
        for expression in expressions:
            self.assertTrue(kernel.get(expression), expression)


class Elsewhere(Case):
    def elsewhere(self, segments: Segments, *expressions: str) -> List[Any]:
        """In a process that has never seen what is loaded."""
        argv = [sys.executable, "-I", "-B", "-X", "utf8", "-c", _PROGRAM]
        given = pickle.dumps(([_PACKAGES, *sys.path], segments, self.report["python"], expressions))
        done = subprocess.run(argv, input=given, stdout=subprocess.PIPE, check=True)
        self.loaded, answers = json.loads(done.stdout)
        return answers

    def test_values_functions_classes_and_instances_come_back_in_another_process(self) -> None:
        segments = self.save(
            Kernel(
                "import os.path, math as m\nfrom math import pi\nitems = [1, {'a': (2, 3)}]\nn = 41",
                "def bump():\n    global n\n    n += 1\n    return n",
                "class Animal:\n    def __init__(self, name): self.name = name\n"
                "    def says(self): return self.name + '!'",
                "class Dog(Animal):\n    def says(self): return 'woof ' + super().says()\nrex = Dog('rex')",
            )
        )
        answers = self.elsewhere(
            segments,
            "items",
            "bump()",
            "n",
            "rex.says()",
            "isinstance(rex, Dog)",
            "m.pi == pi",
            "os.path.sep",
            "bump.__globals__ is globals()",
            "__import__('inspect').getmodule(Dog).__name__",
        )
        self.assert_all_saved()
        self.assertEqual(answers, [[1, {"a": [2, 3]}], 42, 42, "woof rex!", True, True, "/", True, "__main__"])

    @needs_cloudpickle
    def test_closures_that_share_a_variable_come_back_in_another_process(self) -> None:
        segments = self.save(
            Kernel(
                "def counter():\n    n = 0\n    def up():\n        nonlocal n\n        n += 1\n"
                "    def now(): return n\n    return up, now",
                "up, now = counter()\nup()\ndouble = lambda x: x * 2",
            )
        )
        self.assertEqual(self.elsewhere(segments, "[up(), up(), now()]", "double(21)"), [[None, None, 3], 42])

    def test_the_text_of_cells_comes_back_for_tracebacks(self) -> None:
        text = "def f():\n    return 1\n"
        segments = self.save(Kernel("x = 1", text))
        self.elsewhere(segments, "f()")
        self.assertEqual(self.loaded["cells"], {"<cell 2>": text})


class Replacing(Case):
    def test_names_that_are_not_in_the_checkpoint_are_removed_first(self) -> None:
        segments = self.save(Kernel("a = 1"))
        kernel = Kernel("a = 2; b = 3; tools = 4; __version__ = '1'")
        load(kernel.names, segments, python=self.report["python"], ignore=("tools",))
        self.assertEqual((kernel.names["a"], kernel.names["tools"], kernel.names["__version__"]), (1, 4, "1"))
        self.assertNotIn("b", kernel.names)

    def test_dunder_and_ignored_names_are_not_saved(self) -> None:
        self.save(Kernel("__secret__ = 1; tools = 2; mine = 3"), ignore=("tools",))
        self.assertEqual(self.report["saved"], ["mine"])

    def test_what_refers_to_an_ignored_name_finds_the_one_of_the_process_that_loads(self) -> None:
        segments = self.save(Kernel("tools = object(); held = [tools]"), ignore=("tools",))
        kernel = Kernel("tools = 'others'")
        load(kernel.names, segments, python=self.report["python"], ignore=("tools",))
        self.assertEqual(kernel.names["held"], ["others"])

    def test_last_results_are_saved_and_not_missed(self) -> None:
        kernel = self.again("_ = [1]; __ = 2; ___ = (i for i in ())")
        self.assertEqual((kernel.get("_"), kernel.get("__"), self.report["lost"]), ([1], 2, []))

    def test_builtins_stay_the_module_that_they_are(self) -> None:
        self.assertIs(self.again("def f(): return len('a')").names["__builtins__"], builtins)

    def test_an_empty_namespace_is_a_checkpoint(self) -> None:
        self.again()
        self.assertEqual((self.report["saved"], self.report["lost"], self.loaded["restored"]), ([], [], []))

    def test_a_name_is_saved_as_it_was_last_defined(self) -> None:
        kernel = self.again(
            "def f(): return 1\nclass C: x = 1\nold = C()", "def f(): return 2\nclass C: x = 2\nnew = C()"
        )
        self.assertEqual((kernel.get("f()"), kernel.get("new.x")), (2, 2))
        if has("cloudpickle"):
            self.assert_all(kernel, "old.x == 1", "type(old) is not C")
        else:
            self.assertIn("a class (without cloudpickle)", self.lost()["old"])


class Surroundings(Case):
    def test_random_numbers_go_on_where_they_were(self) -> None:
        kernel = Kernel("import random; random.seed(7); random.random()")
        segments = self.save(kernel)
        expected = kernel.get("random.random()")
        kernel.run("random.seed(1)")
        self.assertEqual(self.load(segments).get("random.random()"), expected)

    @needs_numpy
    def test_numpy_random_numbers_go_on_where_they_were(self) -> None:
        kernel = Kernel("import numpy as np; np.random.seed(7); rng = np.random.default_rng(3); rng.random()")
        segments = self.save(kernel)
        expected = kernel.get("(np.random.rand(), rng.random())")
        kernel.run("np.random.seed(1)")
        self.assertEqual(self.load(segments).get("(np.random.rand(), rng.random())"), expected)

    def test_the_working_folder_is_entered_where_it_exists(self) -> None:
        os.chdir("/usr")
        segments = self.save(Kernel())
        os.chdir("/")
        self.load(segments)
        self.assertEqual(os.getcwd(), "/usr")
        self.load([(header, data.replace(b"/usr", b"/not-there")) for header, data in segments])
        self.assertEqual(os.getcwd(), "/usr")

    def test_a_submodule_is_there_after_an_import_of_its_package(self) -> None:
        segments = self.save(Kernel("import xml.dom.minidom"))
        for name in [name for name in sys.modules if name.startswith("xml")]:
            del sys.modules[name]
        self.assertTrue(self.load(segments).get("callable(xml.dom.minidom.parseString)"))

    def test_a_module_that_is_gone_loses_its_own_name_alone(self) -> None:
        segments = self.save(Kernel("import json\nx = 1"))
        damaged = [(header, data.replace(b'"json"', b'"jsoon"')) for header, data in segments]
        kernel = self.load(damaged)
        self.assertEqual((kernel.get("x"), [item["name"] for item in self.loaded["lost"]]), (1, ["json"]))
        self.assertIn("jsoon", self.loaded["lost"][0]["reason"])

    def test_the_main_module_is_the_one_of_the_process_that_loads(self) -> None:
        kernel = self.again("import __main__ as me\nx = 5\nspace = globals()\nheld = {'g': [globals()]}")
        self.assert_all(kernel, "me.x == 5", "space is globals()", "held['g'][0] is globals()")

    def test_a_module_made_in_code_is_told(self) -> None:
        self.save(Kernel("import types\nmade = types.ModuleType('made')\nx = 1"))
        self.assertIn("cannot be imported by its name", self.lost()["made"])
