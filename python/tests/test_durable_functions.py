"""Functions of cells in a checkpoint."""

from __future__ import annotations

from .test_durable import Case, needs_cloudpickle


class Functions(Case):
    def test_globals_of_a_function_are_the_namespace_itself(self) -> None:
        kernel = self.again(
            "n = 1\ndef bump():\n    global n\n    n += 1\n    return helper()\ndef helper(): return n * 10"
        )
        self.assertEqual(kernel.get("bump()"), 20)
        kernel.run("n = 5\ndef helper(): return n * 100")
        self.assertEqual(kernel.get("bump()"), 600)
        self.assert_all(kernel, "bump.__globals__ is globals()", "helper.__globals__ is globals()")

    def test_defaults_annotations_docs_and_attributes_come_back(self) -> None:
        kernel = self.again(
            "from typing import List\n"
            "def f(a, b: int = 2, *args: str, key: List[int] = None, **rest) -> float:\n"
            "    'What f does.'\n    return a + b"
        )
        self.assert_all(
            kernel,
            "f(1) == 3",
            "f.__doc__ == 'What f does.'",
            "f.__annotations__['b'] is int",
            "f.__name__ == 'f'",
            "f.__module__ == '__main__'",
            "f.__kwdefaults__ == {'key': None}",
            "f.__annotations__['key'] == List[int]",
        )
        self.assert_all_saved()

    @needs_cloudpickle
    def test_attributes_of_a_function_come_back(self) -> None:
        kernel = self.again("def f(): f.calls += 1\nf.calls = 1\nf()\nf.tags = ['a']\ntags = f.tags")
        self.assert_all(kernel, "f.calls == 2", "f.tags is tags")

    def test_recursive_and_mutually_recursive_functions_come_back(self) -> None:
        kernel = self.again(
            "def fact(n): return 1 if n < 2 else n * fact(n - 1)",
            "def even(n): return n == 0 or odd(n - 1)\ndef odd(n): return n != 0 and even(n - 1)",
        )
        self.assert_all(kernel, "fact(5) == 120", "even(10)", "odd(7)")

    def test_generator_and_coroutine_functions_come_back(self) -> None:
        kernel = self.again(
            "def numbers():\n    yield from (1, 2)\nasync def wait():\n    return 3\nasync def ticks():\n    yield 4",
            "import asyncio",
        )
        self.assert_all(
            kernel, "list(numbers()) == [1, 2]", "asyncio.run(wait()) == 3", "hasattr(ticks(), '__anext__')"
        )

    @needs_cloudpickle
    def test_lambdas_and_closures_come_back(self) -> None:
        kernel = self.again(
            "k = 3\ntimes = lambda x: x * k\ndef adder(n):\n    def add(x): return x + n + k\n"
            "    return add\nadd5 = adder(5)",
            "table = {'sq': lambda x: x * x, 'fns': [adder(1)]}",
        )
        self.assert_all(kernel, "times(2) == 6", "add5(1) == 9", "table['sq'](3) == 9", "table['fns'][0](0) == 4")
        kernel.run("k = 10")
        self.assert_all(kernel, "times(2) == 20", "add5(1) == 16", "add5.__qualname__ == 'adder.<locals>.add'")

    @needs_cloudpickle
    def test_closures_that_share_a_variable_still_share_it(self) -> None:
        kernel = self.again(
            "def counter():\n    n = 0\n    def up():\n        nonlocal n\n        n += 1\n"
            "    def now(): return n\n    return up, now",
            "up, now = counter()\nup()\nother_up, other_now = counter()",
        )
        kernel.run("up(); up(); other_up()")
        self.assertEqual((kernel.get("now()"), kernel.get("other_now()")), (3, 1))

    @needs_cloudpickle
    def test_a_closure_that_refers_to_itself_comes_back(self) -> None:
        kernel = self.again(
            "def make():\n    def f(n): return 1 if n < 2 else n * f(n - 1)\n    return f\nfact = make()",
            "def late():\n    if False: x = 1\n    return lambda: x\nempty = late()",
        )
        self.assert_all(kernel, "fact(5) == 120", "fact.__closure__[0].cell_contents is fact")
        with self.assertRaises(NameError):
            kernel.get("empty()")

    @needs_cloudpickle
    def test_decorated_functions_come_back(self) -> None:
        kernel = self.again(
            "import functools\ncalls = []\ndef logged(f):\n    @functools.wraps(f)\n    def inner(*a):\n"
            "        calls.append(f.__name__)\n"
            "        return f(*a)\n    return inner",
            "@logged\ndef add(a, b): return a + b\nadd(1, 2)",
        )
        self.assert_all(kernel, "add(2, 3) == 5", "calls == ['add', 'add']", "add.__wrapped__(1, 1) == 2")

    def test_a_cached_function_comes_back_with_an_empty_cache(self) -> None:
        kernel = self.again(
            "import functools\n@functools.lru_cache(maxsize=7)\ndef sq(n):\n    return n * n\nsq(2); sq(2)"
        )
        self.assert_all(kernel, "sq(3) == 9", "sq.cache_info().hits == 0", "sq.cache_info().maxsize == 7")

    def test_a_function_under_two_names_stays_one_object(self) -> None:
        kernel = self.again("def f(): return 1\ng = f\nheld = [f]\ndel f\ndef h(): pass\nalso = h")
        self.assert_all(kernel, "held[0] is g", "g() == 1", "also is h")

    @needs_cloudpickle
    def test_a_function_whose_globals_are_a_modules_keeps_them(self) -> None:
        kernel = self.again(
            "import contextlib\n@contextlib.contextmanager\ndef here(): yield 7\nwith here() as seven: pass",
            "import functools\n@functools.singledispatch\ndef kind(x): return 'any'\n"
            "@kind.register(int)\ndef _of_int(x): return 'int'\n"
            "kind(1)",
        )
        kernel.run("with here() as eight: pass")
        self.assert_all(kernel, "eight == 7", "kind(1) == 'int'", "kind('a') == 'any'")
        self.assert_all(kernel, "here.__globals__ is contextlib.__dict__")
        self.assert_all_saved()

    def test_partials_and_bound_methods_come_back_with_what_they_hold(self) -> None:
        kernel = self.again(
            "import functools, operator\nitems = []\npush = items.append\n"
            "part = functools.partial(max, 3)\nget = operator.itemgetter(1)",
            "class C:\n    def __init__(self): self.n = 0\n    def up(self): self.n += 1\nc = C()\nup = c.up",
        )
        kernel.run("push(1); up()")
        self.assert_all(kernel, "items == [1]", "c.n == 1", "part(9) == 9", "get('ab') == 'b'")

    def test_functions_of_modules_are_imported(self) -> None:
        kernel = self.again(
            "from os.path import join\nfrom collections import OrderedDict as OD\nimport json\ndump = json.dumps"
        )
        self.assert_all(kernel, "join('a', 'b') == 'a/b'", "dump is json.dumps", "OD.__name__ == 'OrderedDict'")
