"""What the values of a checkpoint share with each other."""

from __future__ import annotations

from .test_durable import Case, Kernel, has


class Sharing(Case):
    def test_an_object_under_two_names_stays_one(self) -> None:
        kernel = self.again("a = []; b = [a]; c = {'a': a, 'b': b}; d = e = {1}")
        kernel.run("a.append(1); d.add(2)")
        self.assert_all(kernel, "b[0] is a", "c['a'] is a and c['b'] is b", "d is e", "e == {1, 2}")

    def test_an_object_that_two_names_share_without_a_name_stays_one(self) -> None:
        kernel = self.again("x = [1]; a = {'x': x}; b = (x, 2); t = ([5],); u = [t]; v = {'t': t}; del x, t")
        self.assert_all(kernel, "a['x'] is b[0]", "u[0] is v['t']", "u[0][0] is v['t'][0]")

    def test_circles_come_back(self) -> None:
        kernel = self.again(
            "a = []; a.append(a); p = {}; q = {'p': p}; p['q'] = q; t = ([],); t[0].append(t)",
            "class N: pass\nx, y = N(), N()\nx.other, y.other = y, x",
        )
        self.assert_all(
            kernel, "a[0] is a", "p['q'] is q and q['p'] is p", "t[0][0] is t", "x.other is y and y.other is x"
        )

    def test_names_that_share_nothing_are_segments_of_their_own(self) -> None:
        segments = self.save(
            Kernel(
                "shared = [1]\na, b = [shared], [shared]\nx = {'k': 'word'}\ny = ['word']\nhidden = [0]\n"
                "m, n = {'h': hidden}, [hidden]\ndel hidden"
            )
        )
        groups = [header["names"] for header, _ in segments if header["kind"] == "pickle"]
        self.assertEqual(sorted(map(sorted, groups)), [["a"], ["b"], ["m", "n"], ["shared"], ["x"], ["y"]])

    def test_a_name_for_a_class_of_a_module_binds_nothing_to_it(self) -> None:
        segments = self.save(
            Kernel(
                "from collections import OrderedDict, defaultdict\nkind = int\na = OrderedDict(x=1)\n"
                "b = defaultdict(int)\nc = [int, OrderedDict]"
            )
        )
        kernel = self.load(
            [(header, data) for header, data in segments if header["names"] not in (["kind"], ["OrderedDict"])]
        )
        self.assert_all(kernel, "a == {'x': 1}", "b['k'] == 0", "c[0](2.5) == 2")

    def test_a_graph_of_many_objects_comes_back(self) -> None:
        kernel = self.again(
            "class N:\n    def __init__(self, up): self.up, self.down = up, []\nroot = N(None)\nnodes = [root]\n"
            "for i in range(20_000):\n    n = N(nodes[i // 300])\n    n.up.down.append(n)\n    nodes.append(n)\ndel n"
        )
        self.assert_all(
            kernel, "nodes[0] is root", "nodes[-1].up.up is root", "len(root.down) == 300", "root.down[5] is nodes[6]"
        )

    def test_many_names_that_refer_to_each_other_take_little_time(self) -> None:
        kernel = self.again(
            "for i in range(300):\n    globals()['p%d' % i] = p = []\n    globals()['q%d' % i] = [p]\n"
            "    p.append(globals()['q%d' % i])\ndel p"
        )
        self.assert_all(kernel, "p299[0] is q299 and q299[0] is p299")
        self.assertEqual(len(self.report["saved"]), 601)

    def test_views_of_dicts_stay_views(self) -> None:
        kernel = self.again(
            "import collections, types\n"
            "d = {'a': 1}; keys = d.keys(); items = d.items(); values = d.values(); proxy = types.MappingProxyType(d)\n"
            "od = collections.OrderedDict(x=1); okeys = od.keys()"
        )
        kernel.run("d['b'] = 2; od['y'] = 2")
        self.assert_all(
            kernel,
            "list(keys) == ['a', 'b']",
            "len(items) == 2",
            "list(values) == [1, 2]",
            "proxy['b'] == 2",
            "list(okeys) == ['x', 'y']",
        )

    def test_the_default_of_a_function_is_the_object_that_has_a_name(self) -> None:
        kernel = self.again("cache = {}\ndef get(k, store=cache): return store.setdefault(k, len(store))\nget('a')")
        kernel.run("get('b')")
        if has("cloudpickle"):
            self.assertEqual(kernel.get("cache"), {"a": 0, "b": 1})
        self.assert_all_saved()

    def test_a_weak_dictionary_keeps_what_others_hold(self) -> None:
        kernel = self.again(
            "import weakref\nclass C: pass\n"
            "c = C(); w = weakref.WeakValueDictionary(c=c); gone = weakref.WeakValueDictionary(g=C())"
        )
        self.assert_all(kernel, "w['c'] is c", "len(gone) == 0")
