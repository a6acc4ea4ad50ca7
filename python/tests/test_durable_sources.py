"""Functions and classes that come back from the text of their cells."""

from __future__ import annotations

import inspect
import linecache
import sys

from cella_kernel import cell_sources
from .test_durable import Case, Kernel, has


class Sources(Case):
    def tearDown(self) -> None:
        cell_sources.forget_all()

    def test_inspect_finds_the_source_of_what_came_back(self) -> None:
        text = "x = 1\ndef f(a):\n    return a\n\nclass C:\n    def m(self): pass\n"
        self.load(self.save(Kernel("pass", text)))
        kernel = self.load(self.save(Kernel("pass", text)))
        for file, source in self.loaded["cells"].items():
            cell_sources.remember(file, source)
        self.addCleanup(linecache.clearcache)
        self.assertEqual(inspect.getsource(kernel.names["f"]), "def f(a):\n    return a\n")
        self.assertEqual(inspect.getsource(kernel.names["C"].m), "    def m(self): pass\n")

    def test_texts_of_cells_that_nothing_comes_from_are_not_saved(self) -> None:
        self.again("x = 1", "def f(): return 1", "y = 'secret'")
        self.assertEqual(list(self.loaded["cells"]), ["<cell 2>"])

    def test_a_definition_that_cannot_be_saved_comes_back_from_its_source(self) -> None:
        kernel = self.again(
            "import threading\nclass C:\n    data = threading.local()\n    def f(self): return 1\nc = C()"
        )
        self.assert_all(kernel, "c.f() == 1", "isinstance(c, C)")
        self.assertEqual([item["name"] for item in self.report["sources"]], ["C"])
        self.assertEqual(self.loaded["sources"], ["C"])
        self.assert_all_saved()

    def test_without_cloudpickle_closures_and_lambdas_are_told(self) -> None:
        if has("cloudpickle"):
            self.skipTest("this Python has cloudpickle")
        self.save(
            Kernel(
                "f = lambda: 1\ndef g():\n    n = 1\n    def h(): return n\n    return h\nh = g()\n"
                "held = [f, g]\nx = 1"
            )
        )
        self.assertEqual(self.report["saved"], ["g", "x"])
        self.assertEqual(
            self.lost(),
            {
                "f": "a lambda (without cloudpickle) cannot be saved",
                "h": "a closure (without cloudpickle) cannot be saved",
                "held": "it needs 'f', which could not be saved: a lambda (without cloudpickle) cannot be saved",
            },
        )


class FromSource(Case):
    """Another minor version reads no code: everything here comes from sources."""

    def other(self, *cells: str) -> Kernel:
        segments = self.save(Kernel(*cells))
        return self.load(segments, python="2.7.18")

    def test_functions_and_classes_come_back_with_their_instances(self) -> None:
        kernel = self.other(
            "base = 2\nclass P:\n    def __init__(self, x): self.x = x\n    def twice(self): return double(self.x)",
            "if True:\n    def double(n):\n        '''Two\nlines'''\n        return n * base\n"
            "class Q(P): pass\nq = Q(4)",
            "from collections import namedtuple\nPoint = namedtuple('Point', 'x y'); p = Point(1, 2)",
        )
        self.assert_all(
            kernel,
            "q.twice() == 8",
            "isinstance(q, P)",
            "double.__globals__ is globals()",
            "p.y == 2",
            "type(p) is Point",
        )
        self.assert_all(
            kernel,
            "double.__doc__ == 'Two\\nlines'",
            "double.__code__.co_filename == '<cell 2>'",
            "double.__code__.co_firstlineno == 2",
        )
        self.assertEqual(sorted(self.loaded["sources"]), ["P", "Point", "Q", "double"])
        self.assertEqual(self.loaded["lost"], [])

    def test_the_newest_of_two_definitions_counts(self) -> None:
        kernel = self.other(
            "def f(): return 1\nclass C: x = 1\n", "def f(): return 2\ndef f(): return 3\nclass C: x = 2\n"
        )
        self.assert_all(kernel, "f() == 3", "C.x == 2")

    def test_a_decorator_that_gave_the_function_back_does_not_run_again(self) -> None:
        kernel = self.other(
            "routes = []\ndef route(f):\n    routes.append(f.__name__)\n    return f\n@route\n"
            "def home(): return 'home'"
        )
        self.assert_all(kernel, "home() == 'home'", "routes == ['home']")

    def test_a_decorator_that_wrapped_the_function_runs_again(self) -> None:
        kernel = self.other(
            "import functools\ndef twice(f):\n    @functools.wraps(f)\n    def inner(x): return f(f(x))\n"
            "    return inner",
            "@twice\ndef add(x): return x + 1\n@functools.lru_cache(None)\ndef sq(x): return x * x",
        )
        self.assert_all(kernel, "add(1) == 3", "sq(3) == 9", "sq.cache_info().misses == 1")

    def test_a_definition_may_need_values_and_later_names(self) -> None:
        kernel = self.other(
            "limits = {'a': 1}\nclass Late: pass\ndef f(x=limits, y=Late): return x, y",
            "class Late(dict): pass\nclass Z(Late): v = limits['a']",
        )
        self.assert_all(kernel, "f()[0] is limits", "Z.v == 1", "issubclass(Z, Late)")

    def test_what_has_no_source_is_told_with_both_versions(self) -> None:
        self.other("exec('def f(): return 1')\ng = lambda: 2\nx = 1")
        if has("cloudpickle"):
            here = "%d.%d" % sys.version_info[:2]
            expected = "it was saved as code of Python 2.7, and this is Python %s" % here
            self.assertEqual(
                {item["name"]: item["reason"] for item in self.loaded["lost"]}, {"f": expected, "g": expected}
            )
        else:
            self.assertEqual(sorted(self.lost()), ["f", "g"])
        self.assertEqual(self.loaded["restored"], ["x"])

    def test_the_future_that_was_in_force_stays_in_force(self) -> None:
        kernel = self.other(
            "from __future__ import annotations\ndef f(x: NotThere): return x\nclass C:\n    y: Neither\n"
            "    def m(self): pass"
        )
        self.assert_all(
            kernel, "f(1) == 1", "f.__annotations__ == {'x': 'NotThere'}", "C.__annotations__ == {'y': 'Neither'}"
        )
