"""Arrays and frames in a checkpoint, and the memory that they share."""

from __future__ import annotations

from .test_durable import Case, Kernel, needs_numpy, needs_pandas


@needs_numpy
class Arrays(Case):
    def test_arrays_of_all_kinds_come_back(self) -> None:
        kernel = Kernel(
            "import numpy as np\n"
            "a = np.arange(12.).reshape(3, 4); f = np.asfortranarray(a); o = np.array([1, 'a', None], dtype=object)\n"
            "s = np.array([(1, 2.5)], dtype=[('x', 'i4'), ('y', 'f8')]); z = np.zeros((0, 3))\n"
            "n = np.float32(1.5); text = np.array(['ab', 'c'])\n"
            "when = np.array(['2024-01-01'], dtype='M8[D]'); mask = np.ma.array([1, 2], mask=[0, 1])\n"
            "step = np.arange(10)[::3].copy(); sin = np.sin\n"
            "back = np.arange(6)[::-1]; kind = np.dtype('i8'); zero = np.array(5)"
        )
        back = self.load(self.save(kernel))
        self.assert_all_saved()
        for name in ("a", "f", "o", "s", "z", "n", "text", "when", "mask", "step", "back", "kind", "zero"):
            same = kernel.names["np"].array_equal(back.names[name], kernel.names[name]) if name != "kind" else True
            self.assertTrue(same, name)
            self.assertEqual(getattr(back.names[name], "dtype", None), getattr(kernel.names[name], "dtype", None), name)
        self.assert_all(back, "f.flags.f_contiguous", "sin is np.sin", "mask[1] is np.ma.masked", "a.flags.writeable")

    def test_a_view_of_a_named_array_stays_a_view(self) -> None:
        kernel = self.again(
            "import numpy as np\n"
            "a = np.zeros((4, 5)); row = a[1]; part = a[1:3, ::2]; t = a.T; raw = a.view('i8'); rev = a[::-1, ::-1]\n"
            "f = np.zeros((3, 2), order='F'); col = f[:, 1]; o = np.array([None] * 4); tail = o[1::2]\n"
            "fixed = a[0]; fixed.flags.writeable = False; flat = a.ravel(); copy = a.copy()"
        )
        self.assert_all_saved()
        kernel.run("a[1, 2] = 7; a[0, 0] = 3; f[1, 1] = 5; o[3] = 'x'")
        self.assert_all(
            kernel,
            "row[2] == 7",
            "part[0, 1] == 7",
            "t[2, 1] == 7",
            "raw[1, 2] != 0",
            "rev[2, 2] == 7",
            "col[1] == 5",
            "tail[1] == 'x'",
            "fixed[0] == 3 and not fixed.flags.writeable",
            "flat[7] == 7",
            "not copy.any()",
        )
        kernel.run("part[1, 0] = 9; tail[0] = 'y'")
        self.assert_all(kernel, "a[2, 0] == 9", "o[1] == 'y'", "np.shares_memory(row, a)")

    def test_views_of_an_array_without_a_name_stay_together(self) -> None:
        kernel = self.again(
            "import numpy as np\n"
            "base = np.arange(10); a, b = base[2:6], base[4:]; pair = [base[:3], base[1:]]; del base\n"
            "alone = np.arange(10)[3:5]"
        )
        kernel.run("a[2] = 100; pair[0][1] = 50")
        self.assert_all(kernel, "b[0] == 100", "pair[1][0] == 50", "list(alone) == [3, 4]")
        self.assert_all_saved()

    def test_views_that_do_not_overlap_do_not_bring_the_whole_memory_along(self) -> None:
        code = (
            "import numpy as np\n"
            "base = np.zeros(1 << 20); a, b, rows = base[:10], base[20:30], [base[40:50], base[60:70]]; del base"
        )
        kernel = self.again(code, limit_bytes=1 << 16)
        self.assert_all_saved()
        self.assert_all(kernel, "a.shape == b.shape == rows[1].shape == (10,)")

    def test_a_small_view_of_an_array_over_the_cap_is_saved_on_its_own(self) -> None:
        kernel = self.again("import numpy as np\nbig = np.arange(1 << 20); few = big[5:8]", limit_bytes=1 << 16)
        self.assertEqual((sorted(self.lost()), kernel.get("list(few)")), (["big"], [5, 6, 7]))

    def test_very_many_views_come_back(self) -> None:
        kernel = self.again("import numpy as np\ntable = np.arange(100_000).reshape(-1, 2)\nrows = list(table)")
        kernel.run("table[7, 1] = -1")
        self.assert_all(kernel, "rows[7][1] == -1", "len(rows) == 50_000")

    def test_an_array_in_the_memory_of_a_bytearray_stays_there(self) -> None:
        kernel = self.again(
            "import numpy as np\n"
            "raw = bytearray(16); nums = np.frombuffer(raw, 'u2'); fixed = np.frombuffer(b'abcd', 'u1')"
        )
        kernel.run("raw[2] = 5")
        self.assert_all(kernel, "nums[1] == 5", "list(fixed) == [97, 98, 99, 100]")

    def test_views_stay_views_when_a_restored_kernel_is_saved_again(self) -> None:
        first = self.again("import numpy as np\na = np.zeros(6); v = a[2:]")
        first.cells = {}
        second = self.load(self.save(first))
        second.run("a[3] = 1")
        self.assert_all(second, "v[1] == 1")

    def test_a_view_of_another_type_is_told_where_it_would_be_unlinked(self) -> None:
        self.save(Kernel("import numpy as np\na = np.zeros((2, 2)); m = np.asmatrix(a); alone = np.matrix([[1]])"))
        self.assertEqual(self.lost(), {"m": "it shares memory with 'a', which only plain numpy arrays can restore"})

    def test_a_memory_mapped_array_is_told(self) -> None:
        self.save(
            Kernel(
                "import numpy as np, tempfile\n"
                "m = np.memmap(tempfile.TemporaryFile(), 'u1', 'w+', shape=(4,)); held = {'m': m}\n"
                "v = np.asarray(m)[1:]"
            )
        )
        self.assertEqual(sorted(self.lost()), ["held", "m", "v"])
        self.assertIn("memory-mapped", self.lost()["v"])


@needs_pandas
class Frames(Case):
    def test_frames_series_and_indexes_come_back(self) -> None:
        kernel = Kernel(
            "import pandas as pd\n"
            "df = pd.DataFrame({'a': [1, 2, 3], 'b': list('xyz'), 'c': pd.to_datetime(['2024-01-01'] * 3),"
            " 'd': [1.5, None, 3]},"
            " index=pd.Index([5, 6, 7], name='id'))\n"
            "s = pd.Series([1, 2], name='s'); cat = pd.Series(['u', 'v', 'u'], dtype='category')\n"
            "multi = df.set_index(['a', 'b']); grouped = df.groupby('a').sum(numeric_only=True)\n"
            "ts = pd.Timestamp('2024-05-05', tz='UTC')\n"
            "big = pd.Series([1, None], dtype='Int64'); empty = pd.DataFrame()"
        )
        back = self.load(self.save(kernel))
        self.assert_all_saved()
        for name in ("df", "s", "cat", "multi", "grouped", "big", "empty"):
            self.assertTrue(back.names[name].equals(kernel.names[name]), name)
            self.assertEqual(
                str(getattr(back.names[name], "dtypes", "")), str(getattr(kernel.names[name], "dtypes", "")), name
            )
        self.assert_all(back, "df.index.name == 'id'", "ts.tz is not None")

    def test_an_array_in_the_memory_of_a_frame_stays_there(self) -> None:
        kernel = Kernel(
            "import pandas as pd, numpy as np\n"
            "df = pd.DataFrame({'a': np.zeros(3), 'b': np.ones(3)}); values = df.values\n"
        )
        shares = kernel.get("np.shares_memory(values, df['a'].to_numpy())")
        back = self.load(self.save(kernel))
        self.assert_all_saved()
        self.assertEqual(back.get("np.shares_memory(values, df['a'].to_numpy())"), shares)
        if kernel.get("values.flags.writeable"):
            kernel.run("values[0, 0] = 5")
            back.run("values[0, 0] = 5")
            self.assertEqual(back.get("df.iloc[0, 0]"), kernel.get("df.iloc[0, 0]"))
