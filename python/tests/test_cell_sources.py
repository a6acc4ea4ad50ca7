"""The texts of cells: how much memory they may take, and where a class is found."""

import ast
import linecache
import sys
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


class TestClasses(unittest.TestCase):
    @unittest.skipIf(sys.version_info < (3, 10), "there is no match statement")
    def test_a_class_in_a_match_case_is_found_in_its_cell(self):
        source = "match 1:\n    case 1:\n        class InCase:\n            pass\n"
        self.addCleanup(cell_sources._classes.pop, "InCase", None)
        cell_sources.remember_classes("<cell 7>", source, ast.parse(source).body)
        self.assertEqual(cell_sources._classes.get("InCase"), "<cell 7>")


if __name__ == "__main__":
    unittest.main()
