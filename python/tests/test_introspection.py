"""Introspection, asked as the kernel asks it.

Run from the root of the repository, with any Python from 3.9:
    python3 -I -B -m unittest discover -s python/tests -t python
"""

from __future__ import annotations

import marshal
import sys
import time
import unittest
from typing import Any, Dict, List, Optional

from cella_kernel import cell_sources, introspection

_CODE = '''
import collections, os
d = {"key one": 1, "kez": {"it's": 2, 'say "x"': 3}, 3: 4}
dd = collections.defaultdict(list)

class P:
    """What P is."""
    ran = 0

    def __init__(self):
        self.inst = [1]
        self._hidden = 2

    @property
    def prop(self):
        """What prop is."""
        P.ran += 1
        return "text"

    def meth(self, a, b=2):
        """What meth does."""
        return a

class Bad:
    def __dir__(self):
        raise RuntimeError("no dir")

    def __repr__(self):
        raise TypeError("no repr")

    def __sizeof__(self):
        raise ValueError("no size")

class Odd:
    __repr__ = property(lambda self: [].append)
    __getattribute__ = lambda self, name: 1 / 0

p = P()
bad = Bad()
odd = Odd()
'''


def _namespace() -> Dict[str, Any]:
    namespace: Dict[str, Any] = {"__name__": "__main__", "__builtins__": __builtins__}
    cell_sources.remember("<cell 1>", _CODE)
    exec(compile(_CODE, "<cell 1>", "exec"), namespace)
    return namespace


class _Case(unittest.TestCase):
    def setUp(self) -> None:
        self.namespace = _namespace()

    def ask(self, method: str, **params: Any) -> Any:
        value = introspection.answer(self.namespace, method, params)
        marshal.dumps(value, 2)
        return value


class Dispatch(_Case):
    def test_an_unknown_method_is_named(self) -> None:
        with self.assertRaisesRegex(ValueError, "no_such"):
            self.ask("no_such")


class Complete(_Case):
    def complete(self, code: str, cursor: Optional[int] = None) -> Dict[str, Any]:
        return self.ask("complete", code=code, cursor=len(code) if cursor is None else cursor)

    def texts(self, code: str) -> List[str]:
        return [match["text"] for match in self.complete(code)["matches"]]

    def kinds(self, code: str) -> Dict[str, str]:
        return {match["text"]: match["type"] for match in self.complete(code)["matches"]}

    def test_names_of_the_namespace_builtins_and_keywords(self) -> None:
        self.assertEqual(self.kinds("pri"), {"print": "function"})
        self.assertEqual(self.kinds("whi"), {"while": "keyword"})
        self.assertEqual(self.kinds("x = P")["P"], "class")
        self.assertEqual(self.kinds("o")["os"], "module")
        self.assertEqual(self.kinds("ba"), {"bad": "instance"})

    def test_matches_are_sorted_and_private_names_wait_for_an_underscore(self) -> None:
        everything = self.texts("")
        self.assertEqual(everything, sorted(everything))
        self.assertFalse([name for name in everything if name.startswith("_")])
        self.assertIn("_hidden", self.texts("p._"))
        self.assertNotIn("_hidden", self.texts("p."))

    def test_the_prefix_is_what_a_match_replaces(self) -> None:
        found = self.complete("é = p.me + 1", 8)
        self.assertEqual(found, {"matches": [{"text": "meth", "type": "function"}], "prefix": "me"})
        self.assertEqual(self.complete("p.meth", 0)["prefix"], "")
        self.assertEqual(self.complete("p.me", 99)["prefix"], "me")

    def test_attributes_do_not_run_properties(self) -> None:
        kinds = self.kinds("p.")
        self.assertEqual(kinds, {"inst": "attribute", "meth": "function", "prop": "attribute", "ran": "attribute"})
        self.assertEqual(self.texts("p.prop."), [])
        self.assertIn("append", self.texts("p.inst.a"))
        self.assertEqual(self.texts("os.path.joi"), ["join"])
        self.assertEqual(self.namespace["P"].ran, 0)

    def test_attributes_of_literals_and_items(self) -> None:
        self.assertEqual(self.texts('"abc".uppe'), ["upper"])
        self.assertEqual(self.texts("return [1].app"), ["append"])
        self.assertEqual(self.texts('d["kez"].ite'), ["items"])
        self.assertEqual(self.texts("1."), [])

    def test_nothing_is_called_and_nothing_is_made(self) -> None:
        self.assertEqual(self.texts("P().me"), [])
        self.assertEqual(self.texts('dd["new"].app'), [])
        self.assertEqual(len(self.namespace["dd"]), 0)

    def test_a_dir_that_raises_breaks_nothing(self) -> None:
        self.assertEqual(self.texts("bad."), [])
        self.assertIn("__dir__", self.texts("bad.__d"))
        self.assertEqual(self.texts("odd.x"), [])

    def test_modules_to_import(self) -> None:
        self.assertEqual(self.kinds("import json, colle"), {"collections": "module"})
        self.assertEqual(self.texts("import xml.etr"), ["etree"])
        self.assertIn("sys", self.texts("if x: import sy"))
        self.assertEqual(self.texts("from xml.etree imp"), ["import"])
        self.assertEqual(self.texts("from . import a"), [])

    def test_names_to_import_from_a_module(self) -> None:
        self.assertEqual(self.texts("from os.path import (\n    basename,\n    joi"), ["join"])
        self.assertEqual(self.kinds("from xml import etr"), {"etree": "module"})
        self.assertEqual(self.texts("from math import sqr"), ["sqrt"])

    def test_asking_for_names_to_import_imports_nothing(self) -> None:
        sys.modules.pop("this", None)
        self.assertEqual(self.texts("from wave import open"), ["open"])
        self.assertEqual(self.kinds("from this import "), {"d": "attribute", "s": "attribute"})
        self.assertNotIn("this", sys.modules)

    def test_keys_of_dictionaries(self) -> None:
        found = self.complete('d["ke')
        self.assertEqual(found["prefix"], "ke")
        self.assertEqual(found["matches"], [{"text": "key one", "type": "key"}, {"text": "kez", "type": "key"}])
        self.assertEqual(self.texts("d['kez']['it"), ["it\\'s"])
        self.assertEqual(self.texts('d["kez"]["'), ["it's", 'say \\"x\\"'])
        self.assertEqual(self.texts("d["), ["'key one'", "'kez'"])

    def test_nothing_in_strings_and_comments_but_in_fields_of_f_strings(self) -> None:
        for code in ('"pri', "# pri", '"""a\npri', 'f"pri', 'f"{{pri'):
            self.assertEqual(self.texts(code), [], code)
        self.assertEqual(self.texts('f"{1} {p.me'), ["meth"])

    def test_matches_are_capped(self) -> None:
        self.namespace.update(("name%d" % number, 0) for number in range(2000))
        self.assertEqual(len(self.texts("name")), 500)
        self.namespace["many"] = {"key%d" % number: 0 for number in range(200_000)}
        self.assertEqual(len(self.texts('many["key')), 500)

    def test_any_text_can_be_asked_about(self) -> None:
        open_ended = ("", ".", "...", ")", "]].", "a.)", "x[", '["', "'", "\\", "\ud800.", "\0.", "f'{")
        for code in (*open_ended, "(" * 5000 + "a.", "import", "from", "import .", "from x import y as ", "d[d[d["):
            self.complete(code)
            self.ask("inspect", code=code, cursor=len(code))


class Inspect(_Case):
    def inspect(self, code: str, cursor: Optional[int] = None) -> Dict[str, Any]:
        return self.ask("inspect", code=code, cursor=len(code) if cursor is None else cursor)

    def test_a_function_of_a_cell(self) -> None:
        found = self.inspect("x = p.meth(1)", 7)
        self.assertEqual((found["found"], found["name"], found["type"]), (True, "p.meth", "method"))
        self.assertEqual((found["signature"], found["doc"]), ("meth(a, b=2)", "What meth does."))
        self.assertTrue(found["source"].lstrip().startswith("def meth"))

    def test_the_part_of_a_dotted_name_that_the_cursor_is_in(self) -> None:
        self.assertEqual(self.inspect("os.path.join", 1)["name"], "os")
        self.assertEqual(self.inspect("os.path.join", 4)["name"], "os.path")
        self.assertEqual(self.inspect("os.path.join", 12)["name"], "os.path.join")

    def test_the_function_whose_arguments_the_cursor_is_among(self) -> None:
        self.assertEqual(self.inspect("p.meth(1, ")["name"], "p.meth")
        self.assertEqual(self.inspect('print("te')["name"], "print")

    def test_a_property_is_told_of_without_running(self) -> None:
        found = self.inspect("p.prop")
        self.assertEqual((found["type"], found["doc"]), ("property", "What prop is."))
        self.assertIn("def prop", found["source"])
        self.assertEqual(self.namespace["P"].ran, 0)

    def test_absent_fields_are_left_out(self) -> None:
        self.assertEqual(self.inspect("nothing_here"), {"found": False})
        self.assertEqual(self.inspect("for"), {"found": False})
        self.assertEqual(self.inspect(""), {"found": False})
        self.assertNotIn("signature", self.inspect("d"))

    def test_the_repr_is_short_and_may_fail(self) -> None:
        self.namespace["long"] = list(range(10_000))
        self.assertLessEqual(len(self.inspect("long")["repr"]), 200)
        self.assertEqual(self.inspect("bad")["repr"], "<repr failed: TypeError>")


class IsComplete(_Case):
    def status(self, code: str) -> str:
        return str(self.ask("isComplete", code=code)["status"])

    def indent(self, code: str) -> str:
        return str(self.ask("isComplete", code=code)["indent"])

    def test_complete(self) -> None:
        lines = ("", "# c", "x = 1", "await x", "async for a in b: pass", "if x: y")
        blocks = ("def f():\n    return 1\n", "f(\n    1)", 'x = """a\n  b"""', "for a in b:\n    a\nc")
        for code in (*lines, *blocks):
            self.assertEqual(self.status(code), "complete", code)

    def test_incomplete_and_what_the_next_line_begins_with(self) -> None:
        for code, indent in (
            ("def f():", "    "),
            ("def f():\n    x = 1", "    "),
            ("def f():\n    return 1", ""),
            ("class A:\n    def f(self):\n        pass", "    "),
            ("if a:\n\tif b:  # why", "\t    "),
            ("f(", "    "),
            ("f(\n    1,", "    "),
            ('x = """a', ""),
            ("x = 1 + \\", ""),
            ("@decorated", ""),
            ("try:\n    a", "    "),
            ("try:\n    a\nexcept E:\n    b", "    "),
            ("async with a as b:", "    "),
        ):
            self.assertEqual(self.status(code), "incomplete", code)
            self.assertEqual(self.indent(code), indent, code)

    def test_invalid_says_why(self) -> None:
        for code in ("f)", '"abc', "  x", "x\0", "\ud800", "return 1", "else:", "x = = 1", "(" * 3000):
            found = self.ask("isComplete", code=code)
            self.assertEqual(found["status"], "invalid", code)
            self.assertIn("Error: ", found["message"])

    def test_warnings_are_not_shown(self) -> None:
        import contextlib
        import io

        with contextlib.redirect_stderr(io.StringIO()) as errors:
            self.assertEqual(self.status('x is "a"; "\\d"'), "complete")
        self.assertEqual(errors.getvalue(), "")


class Variables(_Case):
    def variables(self) -> Dict[str, Dict[str, Any]]:
        return {found.pop("name"): found for found in self.ask("variables")}

    def test_what_the_code_bound_and_nothing_else(self) -> None:
        self.namespace.update({"_": 1, "__": 2, "___": 3, "_own": 4, 5: 6})
        names = set(self.variables())
        self.assertEqual(names, {"collections", "os", "d", "dd", "P", "Bad", "Odd", "p", "bad", "odd", "_own"})

    def test_type_size_length_and_preview(self) -> None:
        self.namespace.update(n=1, s="a\nb", t=(1,), e=set())
        found = self.variables()
        self.assertEqual(found["n"], {"type": "int", "size": sys.getsizeof(1), "preview": "1"})
        self.assertEqual((found["s"]["length"], found["s"]["preview"]), ("3", "'a\\nb'"))
        self.assertEqual((found["t"]["length"], found["t"]["preview"]), ("1", "(1,)"))
        self.assertEqual((found["e"]["length"], found["e"]["preview"]), ("0", "set()"))
        self.assertEqual(found["p"]["type"], "P")
        self.assertEqual(found["dd"]["type"], "collections.defaultdict")

    def test_one_bad_object_does_not_hide_the_others(self) -> None:
        found = self.variables()
        self.assertEqual(found["bad"]["preview"], "<repr failed: TypeError>")
        self.assertIn("odd", found)

    def test_a_size_is_never_larger_than_a_plain_number(self) -> None:
        exec("class Vast:\n    def __sizeof__(self): return 1 << 60\nvast = Vast()", self.namespace)
        self.assertEqual(self.variables()["vast"]["size"], (1 << 53) - 1)

    def test_a_repr_that_exits_is_a_repr_that_failed(self) -> None:
        exec("class Exits:\n    def __repr__(self): raise SystemExit(3)\nexits = Exits()", self.namespace)
        self.assertEqual(self.variables()["exits"]["preview"], "<repr failed: SystemExit>")

    def test_huge_values_are_previewed_at_once(self) -> None:
        million = list(range(1_000_000))
        loop: List[Any] = []
        loop.append(loop)
        self.namespace.update(many=million, keys=dict.fromkeys(million), text="x" * 50_000_000, big=1 << 5_000_000)
        self.namespace.update(loop=loop, nested=[million, million], counted=__import__("collections").Counter(million))
        start = time.perf_counter()
        found = self.variables()
        self.assertLess(time.perf_counter() - start, 0.5)
        for name, described in found.items():
            self.assertLessEqual(len(described["preview"]), 80, name)
            self.assertNotIn("\n", described["preview"])
        self.assertEqual(found["many"]["length"], "1000000")
        self.assertTrue(found["many"]["preview"].startswith("[0, 1, 2"))
        self.assertEqual(found["big"]["preview"], "<int of 5000001 bits>")

    def test_arrays_and_frames(self) -> None:
        try:
            import numpy
            import pandas
        except ImportError:
            self.skipTest("numpy and pandas are not installed")
        frame = pandas.DataFrame({"a": [1, 2], "b": ["x", "y"]})
        self.namespace.update(grid=numpy.zeros((3, 4)), point=numpy.array(5), frame=frame, column=frame["a"])
        found = self.variables()
        self.assertEqual((found["grid"]["length"], found["grid"]["size"]), ("3x4", 96))
        self.assertNotIn("length", found["point"])
        self.assertEqual(found["frame"]["length"], "2x2")
        self.assertEqual((found["column"]["length"], found["column"]["size"]), ("2", 16))
        keys = introspection.answer(self.namespace, "complete", {"code": 'frame["', "cursor": 7})
        self.assertEqual([match["text"] for match in keys["matches"]], ["a", "b"])


if __name__ == "__main__":
    unittest.main()
