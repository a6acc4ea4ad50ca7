"""Classes of cells in a checkpoint, and their instances."""

from __future__ import annotations

from .test_durable import Case, Kernel, has, needs_cloudpickle


class Classes(Case):
    def test_inheritance_properties_classmethods_and_slots_come_back(self) -> None:
        kernel = self.again(
            "class Base:\n    kind = 'base'\n    def __init__(self, x): self._x = x\n    @property\n"
            "    def x(self): return self._x\n"
            "    @x.setter\n    def x(self, value): self._x = value\n    @classmethod\n"
            "    def make(cls): return cls(1)\n"
            "    @staticmethod\n    def two(): return 2",
            "class Child(Base):\n    def __init__(self, x): super().__init__(x * 10)\nclass Slotted:\n"
            "    __slots__ = ('a', '__b')\n"
            "    def __init__(self): self.a = 1; self.__b = 2\n    def b(self): return self.__b",
            "child = Child.make(); slotted = Slotted()",
        )
        kernel.run("child.x = 11")
        self.assert_all(
            kernel,
            "child.x == 11",
            "Child.two() == 2",
            "Child.kind == 'base'",
            "Child.__mro__[1] is Base",
            "type(child) is Child",
            "slotted.a == 1 and slotted.b() == 2",
            "not hasattr(slotted, '__dict__')",
            "Child.__module__ == '__main__'",
        )
        self.assert_all_saved()

    @needs_cloudpickle
    def test_what_was_changed_in_a_class_comes_back(self) -> None:
        kernel = self.again(
            "class C:\n    count = 0\n    all = []\nC.count += 5\nC.all.append(1)\n"
            "C.extra = lambda self: self.count\nc = C()"
        )
        self.assert_all(kernel, "C.count == 5", "C.all == [1]", "c.extra() == 5")

    def test_dataclasses_come_back_as_dataclasses(self) -> None:
        kernel = self.again(
            "from dataclasses import dataclass, field, fields, replace, asdict\nfrom typing import ClassVar, List\n"
            "@dataclass(order=True)\nclass D:\n    a: int\n"
            "    b: List[int] = field(default_factory=list)\n    c: ClassVar[int] = 3\n"
            "@dataclass(frozen=True)\nclass F:\n    x: float = 1.5\nd = D(1, [2]); f = F()",
        )
        self.assert_all(
            kernel,
            "[x.name for x in fields(D)] == ['a', 'b']",
            "replace(d, a=5).a == 5",
            "asdict(d) == {'a': 1, 'b': [2]}",
            "D(0) < d",
            "D(7).b == []",
            "f == F(1.5)",
            "hash(f) == hash(F())",
            "fields(D)[0].default is __import__('dataclasses').MISSING",
        )
        kernel.run("@dataclass\nclass E(D):\n    z: int = 9\ne = E(1)")
        self.assert_all(kernel, "[x.name for x in fields(E)] == ['a', 'b', 'z']", "e.z == 9")
        self.assert_all_saved()

    def test_enums_and_named_tuples_come_back(self) -> None:
        kernel = self.again(
            "from enum import Enum, IntFlag\nfrom collections import namedtuple\nfrom typing import NamedTuple\n"
            "class Color(Enum):\n    RED = 1\n    BLUE = 'b'\n"
            "    def low(self): return self.name.lower()\nclass Bit(IntFlag):\n    A = 1\n    B = 2",
            "Point = namedtuple('Point', 'x y', defaults=[0])\nclass Pair(NamedTuple):\n    a: int\n    b: str = 'z'",
            "red = Color.RED; both = Bit.A | Bit.B; p = Point(1); pair = Pair(1); held = {Color.BLUE: [Color.RED]}",
        )
        self.assert_all(
            kernel,
            "red is Color.RED",
            "Color('b') is Color.BLUE",
            "held[Color.BLUE][0] is red",
            "red.low() == 'red'",
            "both == Bit.A | Bit.B",
            "p == Point(1, 0) and type(p) is Point",
            "pair == Pair(1, 'z')",
            "p._asdict() == {'x': 1, 'y': 0}",
        )
        self.assert_all_saved()

    def test_metaclasses_abstract_and_generic_classes_come_back(self) -> None:
        kernel = self.again(
            "import abc\nfrom typing import Generic, TypeVar\nclass Meta(type):\n"
            "    def __call__(cls, *a):\n        o = super().__call__(*a)\n"
            "        o.made = True\n        return o\nclass M(metaclass=Meta): pass\nm = M()",
            "class Shape(abc.ABC):\n    @abc.abstractmethod\n    def area(self): ...\nclass Sq(Shape):\n"
            "    def area(self): return 4\nsq = Sq()",
            "T = TypeVar('T')\nclass Box(Generic[T]):\n    def __init__(self, v: T): self.v = v\nbox = Box[int](3)",
        )
        self.assert_all(
            kernel,
            "type(M) is Meta",
            "M().made and m.made",
            "sq.area() == 4",
            "issubclass(Sq, Shape)",
            "box.v == 3",
            "Box.__parameters__[0] is T",
            "isinstance(box, Box)",
        )
        with self.assertRaises(TypeError):
            kernel.get("Shape()")
        self.assert_all_saved()

    def test_instances_with_state_methods_of_their_own_come_back(self) -> None:
        kernel = self.again(
            "class S:\n    def __init__(self): self.a, self.tmp = 1, 2\n"
            "    def __getstate__(self): return {'a': self.a}\n"
            "    def __setstate__(self, s): self.__dict__ = dict(s, tmp='new')\n"
            "class R:\n    def __init__(self, x): self.x = x\n    def __reduce__(self): return R, (self.x + 1,)\n"
            "class L(list): pass\nclass X(Exception):\n"
            "    def __init__(self, code): super().__init__('code %d' % code); self.code = code\n"
            "    def __reduce__(self): return X, (self.code,)",
            "s = S(); r = R(1); l = L([1]); l.tag = 't'; x = X(4)",
        )
        self.assert_all(
            kernel,
            "(s.a, s.tmp) == (1, 'new')",
            "r.x == 2",
            "l == [1] and l.tag == 't'",
            "x.code == 4 and str(x) == 'code 4'",
        )

    @needs_cloudpickle
    def test_classes_from_inside_functions_come_back(self) -> None:
        kernel = self.again(
            "def make():\n    class Inner:\n        def f(self): return __class__.__name__\n"
            "    return Inner\nmade = make()\na = made(); b = make()()"
        )
        self.assert_all(
            kernel,
            "type(a) is made",
            "a.f() == 'Inner'",
            "type(b) is not made",
            "made.__qualname__ == 'make.<locals>.Inner'",
        )

    def test_classes_inside_classes_come_back(self) -> None:
        kernel = self.again(
            "class Outer:\n    class Inner:\n        class Deep: pass\ninner = Outer.Inner()\n"
            "deep = [Outer.Inner.Deep()]"
        )
        self.assert_all(
            kernel,
            "type(inner) is Outer.Inner",
            "type(deep[0]) is Outer.Inner.Deep",
            "Outer.Inner.__qualname__ == 'Outer.Inner'",
        )
        self.assert_all_saved()

    def test_unusual_classes_come_back(self) -> None:
        kernel = self.again(
            "import functools, typing, abc, enum\nclass Named:\n"
            "    def __set_name__(self, owner, name): self.name = name\n"
            "    def __get__(self, obj, kind): return self.name\n"
            "class Holder:\n    field = Named()\n    @functools.cached_property\n"
            "    def slow(self): return [1]\n    def __class_getitem__(cls, item): return item\n"
            "    def __init_subclass__(cls, **kw): cls.seen = True\nclass Sub(Holder): pass\nh = Holder(); h.slow",
            "class Weak:\n    __slots__ = ('a', '__weakref__', '__dict__')\n"
            "w = Weak(); w.a = 1; w.b = 2\nclass One:\n    __slots__ = 'only'\n"
            "one = One(); one.only = 3\n"
            "class TD(typing.TypedDict):\n    a: int\nclass Proto(typing.Protocol):\n"
            "    def f(self) -> int: ...\nclass Impl:\n    def f(self): return 1\n"
            "class Reg(abc.ABC): pass\nReg.register(int)\nclass Auto(enum.Enum):\n    X = enum.auto()\n"
            "    Y = enum.auto()\n"
            "class Code(enum.IntEnum):\n    OK = 200\nmade = type('made', (), {'v': 1})\nerr = KeyError('k')",
            "class Err(Exception):\n    pass\ne = Err('a', 2)\nclass Ctx:\n"
            "    def __enter__(self): return 1\n    def __exit__(self, *a): return None\nctx = Ctx()\n"
            "class Vec(tuple):\n    def __new__(cls, *a): return super().__new__(cls, a)\n"
            "    def __getnewargs__(self): return tuple(self)\nvec = Vec(1, 2)",
        )
        self.assert_all(
            kernel,
            "Holder.field == 'field'",
            "h.slow == [1] and 'slow' in vars(h)",
            "Holder[int] is int",
            "Sub.seen",
            "(w.a, w.b) == (1, 2)",
            "one.only == 3",
            "TD(a=1) == {'a': 1}",
            "Impl().f() == 1",
            "Auto.Y.value == 2 and Auto['X'] is Auto.X",
            "Code(200) is Code.OK",
            "e.args == ('a', 2)",
            "vec == (1, 2)",
            "type(vec) is Vec",
        )
        if has("cloudpickle"):
            self.assert_all(kernel, "made.v == 1", "issubclass(int, Reg)", "not hasattr(one, '__dict__')")
            self.assert_all_saved()

    @needs_cloudpickle
    def test_a_class_that_refers_to_its_instances_comes_back(self) -> None:
        kernel = self.again(
            "class Node:\n    root = None\n    all = []\n    def __init__(self): Node.all.append(self)\n"
            "root = Node.root = Node()\nall_nodes = Node.all"
        )
        self.assert_all(
            kernel, "Node.root is root", "Node.all is all_nodes", "all_nodes[0] is root", "type(root) is Node"
        )

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
