"""How much memory the texts of cells may take."""

import linecache
import tracemalloc
import unittest
from unittest import mock

from cella_kernel import cell_sources


class TestMostBytes(unittest.TestCase):
    def setUp(self):
        self.addCleanup(cell_sources.forget_all)
        cell_sources.forget_all()

    def test_bounds_what_many_short_cells_take(self):
        most = 1 << 20
        with mock.patch.object(cell_sources, "_MOST_BYTES", most):
            tracemalloc.start()
            self.addCleanup(tracemalloc.stop)
            for number in range(20_000):
                cell_sources.remember(cell_sources.file_name(number), "x = %d" % number)
            taken, _ = tracemalloc.get_traced_memory()
        self.assertLess(taken, 2 * most)
        self.assertIn("<cell 19999>", linecache.cache)
        self.assertNotIn("<cell 0>", linecache.cache)

    def test_bounds_what_many_short_lines_take(self):
        most = 1 << 20
        with mock.patch.object(cell_sources, "_MOST_BYTES", most):
            tracemalloc.start()
            self.addCleanup(tracemalloc.stop)
            for number in range(50):
                cell_sources.remember(cell_sources.file_name(number), "1\n" * 4_000)
            taken, _ = tracemalloc.get_traced_memory()
        self.assertLess(taken, 2 * most)


if __name__ == "__main__":
    unittest.main()
