"""Functions and classes of cells in a checkpoint."""

from __future__ import annotations

import inspect
import linecache
import sys

from cella_kernel import sources

from .test_durable import Case, Kernel, has, needs_cloudpickle


class Functions(Case):
    def test_globals_of_a_function_are_the_namespace_itself(self) -> None:
        kernel = self.again("n = 1\ndef bump():\n    global n\n    n += 1\n    return helper()\ndef helper(): return n * 10")
        self.assertEqual(kernel.get("bump()"), 20)
        kernel.run("n = 5\ndef helper(): return n * 100")
        self.assertEqual(kernel.get("bump()"), 600)
        self.assert_all(kernel, "bump.__globals__ is globals()", "helper.__globals__ is globals()")

    def test_defaults_annotations_docs_and_attributes_come_back(self) -> None:
        kernel = self.again(
            "from typing import List\n"
            "def f(a, b: int = 2, *args: str, key: List[int] = None, **rest) -> float:\n    'What f does.'\n    return a + b"
        )
        self.assert_all(
            kernel, "f(1) == 3", "f.__doc__ == 'What f does.'", "f.__annotations__['b'] is int", "f.__name__ == 'f'",
            "f.__module__ == '__main__'", "f.__kwdefaults__ == {'key': None}", "f.__annotations__['key'] == List[int]",
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
        self.assert_all(kernel, "list(numbers()) == [1, 2]", "asyncio.run(wait()) == 3", "hasattr(ticks(), '__anext__')")

    @needs_cloudpickle
    def test_lambdas_and_closures_come_back(self) -> None:
        kernel = self.again(
            "k = 3\ntimes = lambda x: x * k\ndef adder(n):\n    def add(x): return x + n + k\n    return add\nadd5 = adder(5)",
            "table = {'sq': lambda x: x * x, 'fns': [adder(1)]}",
        )
        self.assert_all(kernel, "times(2) == 6", "add5(1) == 9", "table['sq'](3) == 9", "table['fns'][0](0) == 4")
        kernel.run("k = 10")
        self.assert_all(kernel, "times(2) == 20", "add5(1) == 16", "add5.__qualname__ == 'adder.<locals>.add'")

    @needs_cloudpickle
    def test_closures_that_share_a_variable_still_share_it(self) -> None:
        kernel = self.again(
            "def counter():\n    n = 0\n    def up():\n        nonlocal n\n        n += 1\n    def now(): return n\n    return up, now",
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
            "import functools\ncalls = []\ndef logged(f):\n    @functools.wraps(f)\n    def inner(*a):\n        calls.append(f.__name__)\n"
            "        return f(*a)\n    return inner",
            "@logged\ndef add(a, b): return a + b\nadd(1, 2)",
        )
        self.assert_all(kernel, "add(2, 3) == 5", "calls == ['add', 'add']", "add.__wrapped__(1, 1) == 2")

    def test_a_cached_function_comes_back_with_an_empty_cache(self) -> None:
        kernel = self.again("import functools\n@functools.lru_cache(maxsize=7)\ndef sq(n):\n    return n * n\nsq(2); sq(2)")
        self.assert_all(kernel, "sq(3) == 9", "sq.cache_info().hits == 0", "sq.cache_info().maxsize == 7")

    def test_a_function_under_two_names_stays_one_object(self) -> None:
        kernel = self.again("def f(): return 1\ng = f\nheld = [f]\ndel f\ndef h(): pass\nalso = h")
        self.assert_all(kernel, "held[0] is g", "g() == 1", "also is h")

    @needs_cloudpickle
    def test_a_function_whose_globals_are_a_modules_keeps_them(self) -> None:
        kernel = self.again(
            "import contextlib\n@contextlib.contextmanager\ndef here(): yield 7\nwith here() as seven: pass",
            "import functools\n@functools.singledispatch\ndef kind(x): return 'any'\n@kind.register(int)\ndef _of_int(x): return 'int'\n"
            "kind(1)",
        )
        kernel.run("with here() as eight: pass")
        self.assert_all(kernel, "eight == 7", "kind(1) == 'int'", "kind('a') == 'any'")
        self.assert_all(kernel, "here.__globals__ is contextlib.__dict__")
        self.assert_all_saved()

    def test_partials_and_bound_methods_come_back_with_what_they_hold(self) -> None:
        kernel = self.again(
            "import functools, operator\nitems = []\npush = items.append\npart = functools.partial(max, 3)\nget = operator.itemgetter(1)",
            "class C:\n    def __init__(self): self.n = 0\n    def up(self): self.n += 1\nc = C()\nup = c.up",
        )
        kernel.run("push(1); up()")
        self.assert_all(kernel, "items == [1]", "c.n == 1", "part(9) == 9", "get('ab') == 'b'")

    def test_functions_of_modules_are_imported(self) -> None:
        kernel = self.again("from os.path import join\nfrom collections import OrderedDict as OD\nimport json\ndump = json.dumps")
        self.assert_all(kernel, "join('a', 'b') == 'a/b'", "dump is json.dumps", "OD.__name__ == 'OrderedDict'")


class Classes(Case):
    def test_inheritance_properties_classmethods_and_slots_come_back(self) -> None:
        kernel = self.again(
            "class Base:\n    kind = 'base'\n    def __init__(self, x): self._x = x\n    @property\n    def x(self): return self._x\n"
            "    @x.setter\n    def x(self, value): self._x = value\n    @classmethod\n    def make(cls): return cls(1)\n"
            "    @staticmethod\n    def two(): return 2",
            "class Child(Base):\n    def __init__(self, x): super().__init__(x * 10)\nclass Slotted:\n    __slots__ = ('a', '__b')\n"
            "    def __init__(self): self.a = 1; self.__b = 2\n    def b(self): return self.__b",
            "child = Child.make(); slotted = Slotted()",
        )
        kernel.run("child.x = 11")
        self.assert_all(
            kernel, "child.x == 11", "Child.two() == 2", "Child.kind == 'base'", "Child.__mro__[1] is Base", "type(child) is Child",
            "slotted.a == 1 and slotted.b() == 2", "not hasattr(slotted, '__dict__')", "Child.__module__ == '__main__'",
        )
        self.assert_all_saved()

    @needs_cloudpickle
    def test_what_was_changed_in_a_class_comes_back(self) -> None:
        kernel = self.again("class C:\n    count = 0\n    all = []\nC.count += 5\nC.all.append(1)\nC.extra = lambda self: self.count\nc = C()")
        self.assert_all(kernel, "C.count == 5", "C.all == [1]", "c.extra() == 5")

    def test_dataclasses_come_back_as_dataclasses(self) -> None:
        kernel = self.again(
            "from dataclasses import dataclass, field, fields, replace, asdict\nfrom typing import ClassVar, List\n"
            "@dataclass(order=True)\nclass D:\n    a: int\n    b: List[int] = field(default_factory=list)\n    c: ClassVar[int] = 3\n"
            "@dataclass(frozen=True)\nclass F:\n    x: float = 1.5\nd = D(1, [2]); f = F()",
        )
        self.assert_all(
            kernel, "[x.name for x in fields(D)] == ['a', 'b']", "replace(d, a=5).a == 5", "asdict(d) == {'a': 1, 'b': [2]}",
            "D(0) < d", "D(7).b == []", "f == F(1.5)", "hash(f) == hash(F())", "fields(D)[0].default is __import__('dataclasses').MISSING",
        )
        kernel.run("@dataclass\nclass E(D):\n    z: int = 9\ne = E(1)")
        self.assert_all(kernel, "[x.name for x in fields(E)] == ['a', 'b', 'z']", "e.z == 9")
        self.assert_all_saved()

    def test_enums_and_named_tuples_come_back(self) -> None:
        kernel = self.again(
            "from enum import Enum, IntFlag\nfrom collections import namedtuple\nfrom typing import NamedTuple\n"
            "class Color(Enum):\n    RED = 1\n    BLUE = 'b'\n    def low(self): return self.name.lower()\nclass Bit(IntFlag):\n    A = 1\n    B = 2",
            "Point = namedtuple('Point', 'x y', defaults=[0])\nclass Pair(NamedTuple):\n    a: int\n    b: str = 'z'",
            "red = Color.RED; both = Bit.A | Bit.B; p = Point(1); pair = Pair(1); held = {Color.BLUE: [Color.RED]}",
        )
        self.assert_all(
            kernel, "red is Color.RED", "Color('b') is Color.BLUE", "held[Color.BLUE][0] is red", "red.low() == 'red'",
            "both == Bit.A | Bit.B", "p == Point(1, 0) and type(p) is Point", "pair == Pair(1, 'z')", "p._asdict() == {'x': 1, 'y': 0}",
        )
        self.assert_all_saved()

    def test_metaclasses_abstract_and_generic_classes_come_back(self) -> None:
        kernel = self.again(
            "import abc\nfrom typing import Generic, TypeVar\nclass Meta(type):\n    def __call__(cls, *a):\n        o = super().__call__(*a)\n"
            "        o.made = True\n        return o\nclass M(metaclass=Meta): pass\nm = M()",
            "class Shape(abc.ABC):\n    @abc.abstractmethod\n    def area(self): ...\nclass Sq(Shape):\n    def area(self): return 4\nsq = Sq()",
            "T = TypeVar('T')\nclass Box(Generic[T]):\n    def __init__(self, v: T): self.v = v\nbox = Box[int](3)",
        )
        self.assert_all(
            kernel, "type(M) is Meta", "M().made and m.made", "sq.area() == 4", "issubclass(Sq, Shape)", "box.v == 3",
            "Box.__parameters__[0] is T", "isinstance(box, Box)",
        )
        with self.assertRaises(TypeError):
            kernel.get("Shape()")
        self.assert_all_saved()

    def test_instances_with_state_methods_of_their_own_come_back(self) -> None:
        kernel = self.again(
            "class S:\n    def __init__(self): self.a, self.tmp = 1, 2\n    def __getstate__(self): return {'a': self.a}\n"
            "    def __setstate__(self, s): self.__dict__ = dict(s, tmp='new')\n"
            "class R:\n    def __init__(self, x): self.x = x\n    def __reduce__(self): return R, (self.x + 1,)\n"
            "class L(list): pass\nclass X(Exception):\n    def __init__(self, code): super().__init__('code %d' % code); self.code = code\n"
            "    def __reduce__(self): return X, (self.code,)",
            "s = S(); r = R(1); l = L([1]); l.tag = 't'; x = X(4)",
        )
        self.assert_all(kernel, "(s.a, s.tmp) == (1, 'new')", "r.x == 2", "l == [1] and l.tag == 't'", "x.code == 4 and str(x) == 'code 4'")

    @needs_cloudpickle
    def test_classes_from_inside_functions_come_back(self) -> None:
        kernel = self.again("def make():\n    class Inner:\n        def f(self): return __class__.__name__\n    return Inner\nmade = make()\na = made(); b = make()()")
        self.assert_all(kernel, "type(a) is made", "a.f() == 'Inner'", "type(b) is not made", "made.__qualname__ == 'make.<locals>.Inner'")

    def test_classes_inside_classes_come_back(self) -> None:
        kernel = self.again("class Outer:\n    class Inner:\n        class Deep: pass\ninner = Outer.Inner()\ndeep = [Outer.Inner.Deep()]")
        self.assert_all(kernel, "type(inner) is Outer.Inner", "type(deep[0]) is Outer.Inner.Deep", "Outer.Inner.__qualname__ == 'Outer.Inner'")
        self.assert_all_saved()

    def test_unusual_classes_come_back(self) -> None:
        kernel = self.again(
            "import functools, typing, abc, enum\nclass Named:\n    def __set_name__(self, owner, name): self.name = name\n    def __get__(self, obj, kind): return self.name\n"
            "class Holder:\n    field = Named()\n    @functools.cached_property\n    def slow(self): return [1]\n    def __class_getitem__(cls, item): return item\n"
            "    def __init_subclass__(cls, **kw): cls.seen = True\nclass Sub(Holder): pass\nh = Holder(); h.slow",
            "class Weak:\n    __slots__ = ('a', '__weakref__', '__dict__')\nw = Weak(); w.a = 1; w.b = 2\nclass One:\n    __slots__ = 'only'\none = One(); one.only = 3\n"
            "class TD(typing.TypedDict):\n    a: int\nclass Proto(typing.Protocol):\n    def f(self) -> int: ...\nclass Impl:\n    def f(self): return 1\n"
            "class Reg(abc.ABC): pass\nReg.register(int)\nclass Auto(enum.Enum):\n    X = enum.auto()\n    Y = enum.auto()\n"
            "class Code(enum.IntEnum):\n    OK = 200\nmade = type('made', (), {'v': 1})\nerr = KeyError('k')",
            "class Err(Exception):\n    pass\ne = Err('a', 2)\nclass Ctx:\n    def __enter__(self): return 1\n    def __exit__(self, *a): return None\nctx = Ctx()\n"
            "class Vec(tuple):\n    def __new__(cls, *a): return super().__new__(cls, a)\n    def __getnewargs__(self): return tuple(self)\nvec = Vec(1, 2)",
        )
        self.assert_all(
            kernel, "Holder.field == 'field'", "h.slow == [1] and 'slow' in vars(h)", "Holder[int] is int", "Sub.seen", "(w.a, w.b) == (1, 2)", "one.only == 3",
            "TD(a=1) == {'a': 1}", "Impl().f() == 1", "Auto.Y.value == 2 and Auto['X'] is Auto.X", "Code(200) is Code.OK", "e.args == ('a', 2)", "vec == (1, 2)",
            "type(vec) is Vec",
        )
        if has("cloudpickle"):
            self.assert_all(kernel, "made.v == 1", "issubclass(int, Reg)", "not hasattr(one, '__dict__')")
            self.assert_all_saved()

    @needs_cloudpickle
    def test_a_class_that_refers_to_its_instances_comes_back(self) -> None:
        kernel = self.again("class Node:\n    root = None\n    all = []\n    def __init__(self): Node.all.append(self)\nroot = Node.root = Node()\nall_nodes = Node.all")
        self.assert_all(kernel, "Node.root is root", "Node.all is all_nodes", "all_nodes[0] is root", "type(root) is Node")

    @needs_cloudpickle
    def test_classes_that_refer_to_each_other_come_back(self) -> None:
        kernel = self.again("class A: pass\nclass B: pass\nA.b = B\nB.a = A\na = A()")
        self.assert_all(kernel, "A.b is B", "B.a is A", "type(a) is A")

    @needs_cloudpickle
    def test_loading_twice_gives_classes_of_their_own(self) -> None:
        segments = self.save(Kernel("class C:\n    x = 1\nc = C()"))
        first, second = self.load(segments), self.load(segments)
        first.run("C.x = 2; C.y = 3")
        self.assert_all(second, "C.x == 1", "not hasattr(C, 'y')")


class Sources(Case):
    def tearDown(self) -> None:
        sources.forget_all()

    def test_inspect_finds_the_source_of_what_came_back(self) -> None:
        text = "x = 1\ndef f(a):\n    return a\n\nclass C:\n    def m(self): pass\n"
        self.load(self.save(Kernel("pass", text)))
        kernel = self.load(self.save(Kernel("pass", text)))
        for file, source in self.loaded["cells"].items():
            sources.remember(file, source)
        self.addCleanup(linecache.clearcache)
        self.assertEqual(inspect.getsource(kernel.names["f"]), "def f(a):\n    return a\n")
        self.assertEqual(inspect.getsource(kernel.names["C"].m), "    def m(self): pass\n")

    def test_texts_of_cells_that_nothing_comes_from_are_not_saved(self) -> None:
        self.again("x = 1", "def f(): return 1", "y = 'secret'")
        self.assertEqual(list(self.loaded["cells"]), ["<cell 2>"])

    def test_a_definition_that_cannot_be_saved_comes_back_from_its_source(self) -> None:
        kernel = self.again("import threading\nclass C:\n    data = threading.local()\n    def f(self): return 1\nc = C()")
        self.assert_all(kernel, "c.f() == 1", "isinstance(c, C)")
        self.assertEqual([item["name"] for item in self.report["sources"]], ["C"])
        self.assertEqual(self.loaded["sources"], ["C"])
        self.assert_all_saved()

    def test_without_cloudpickle_closures_and_lambdas_are_told(self) -> None:
        if has("cloudpickle"):
            self.skipTest("this Python has cloudpickle")
        self.save(Kernel("f = lambda: 1\ndef g():\n    n = 1\n    def h(): return n\n    return h\nh = g()\nheld = [f, g]\nx = 1"))
        self.assertEqual(self.report["saved"], ["g", "x"])
        self.assertEqual(self.lost(), {
            "f": "a lambda (without cloudpickle) cannot be saved",
            "h": "a closure (without cloudpickle) cannot be saved",
            "held": "it needs 'f', which could not be saved: a lambda (without cloudpickle) cannot be saved",
        })


class FromSource(Case):
    """Another minor version reads no code: everything here comes from sources."""

    def other(self, *cells: str) -> Kernel:
        segments = self.save(Kernel(*cells))
        return self.load(segments, python="2.7.18")

    def test_functions_and_classes_come_back_with_their_instances(self) -> None:
        kernel = self.other(
            "base = 2\nclass P:\n    def __init__(self, x): self.x = x\n    def twice(self): return double(self.x)",
            "if True:\n    def double(n):\n        '''Two\nlines'''\n        return n * base\nclass Q(P): pass\nq = Q(4)",
            "from collections import namedtuple\nPoint = namedtuple('Point', 'x y'); p = Point(1, 2)",
        )
        self.assert_all(kernel, "q.twice() == 8", "isinstance(q, P)", "double.__globals__ is globals()", "p.y == 2", "type(p) is Point")
        self.assert_all(kernel, "double.__doc__ == 'Two\\nlines'", "double.__code__.co_filename == '<cell 2>'", "double.__code__.co_firstlineno == 2")
        self.assertEqual(sorted(self.loaded["sources"]), ["P", "Point", "Q", "double"])
        self.assertEqual(self.loaded["lost"], [])

    def test_the_newest_of_two_definitions_counts(self) -> None:
        kernel = self.other("def f(): return 1\nclass C: x = 1\n", "def f(): return 2\ndef f(): return 3\nclass C: x = 2\n")
        self.assert_all(kernel, "f() == 3", "C.x == 2")

    def test_a_decorator_that_gave_the_function_back_does_not_run_again(self) -> None:
        kernel = self.other("routes = []\ndef route(f):\n    routes.append(f.__name__)\n    return f\n@route\ndef home(): return 'home'")
        self.assert_all(kernel, "home() == 'home'", "routes == ['home']")

    def test_a_decorator_that_wrapped_the_function_runs_again(self) -> None:
        kernel = self.other(
            "import functools\ndef twice(f):\n    @functools.wraps(f)\n    def inner(x): return f(f(x))\n    return inner",
            "@twice\ndef add(x): return x + 1\n@functools.lru_cache(None)\ndef sq(x): return x * x",
        )
        self.assert_all(kernel, "add(1) == 3", "sq(3) == 9", "sq.cache_info().misses == 1")

    def test_a_definition_may_need_values_and_later_names(self) -> None:
        kernel = self.other("limits = {'a': 1}\nclass Late: pass\ndef f(x=limits, y=Late): return x, y", "class Late(dict): pass\nclass Z(Late): v = limits['a']")
        self.assert_all(kernel, "f()[0] is limits", "Z.v == 1", "issubclass(Z, Late)")

    def test_what_has_no_source_is_told_with_both_versions(self) -> None:
        self.other("exec('def f(): return 1')\ng = lambda: 2\nx = 1")
        if has("cloudpickle"):
            here = "%d.%d" % sys.version_info[:2]
            expected = "it was saved as code of Python 2.7, and this is Python %s" % here
            self.assertEqual({item["name"]: item["reason"] for item in self.loaded["lost"]}, {"f": expected, "g": expected})
        else:
            self.assertEqual(sorted(self.lost()), ["f", "g"])
        self.assertEqual(self.loaded["restored"], ["x"])

    def test_the_future_that_was_in_force_stays_in_force(self) -> None:
        kernel = self.other("from __future__ import annotations\ndef f(x: NotThere): return x\nclass C:\n    y: Neither\n    def m(self): pass")
        self.assert_all(kernel, "f(1) == 1", "f.__annotations__ == {'x': 'NotThere'}", "C.__annotations__ == {'y': 'Neither'}")
