"""Values on their way to the host: what would cost it too much travels as its repr."""

from __future__ import annotations

import unittest
from typing import Any, List

from cella_kernel import values


class Costs(unittest.TestCase):
    def test_as_many_items_as_the_host_takes_travel_and_one_more_does_not(self) -> None:
        for fits in [0] * 50_000, {str(key): b"" for key in range(50_000)}, [[0]] * 25_000:
            self.assertIs(values.portable(fits), fits)
        too_many: List[Any] = [[0] * 50_001, {"a": [0] * 25_000, "b": [b""] * 24_999}, [[0]] * 25_001]
        for value in too_many:
            ((kind, text, size),) = values.portable(value)
            self.assertEqual((kind, size), (type(value).__name__, len(value)))
            self.assertLess(len(text), 5000)
            self.assertFalse(values.is_bounded(value))

    def test_what_is_made_of_few_objects_counts_for_all_that_it_unfolds_to(self) -> None:
        value: List[Any] = []
        for _ in range(100):
            value = [value, value]
        ((kind, _, size),) = values.portable(value)
        self.assertEqual((kind, size), ("list", 2))
        ((kind, _, size),) = values.portable(["x" * 1_000_000] * 40_000)
        self.assertEqual((kind, size), ("list", 40_000))

    def test_integers_of_ten_thousand_digits_travel_and_longer_ones_come_as_their_size(self) -> None:
        longest = 10**10_000 - 1
        self.assertIs(values.portable(longest), longest)
        self.assertEqual(values.portable([-longest, True, "x"]), [-longest, True, "x"])
        for value in longest + 1, -longest - 1:
            ((kind, _, size),) = values.portable(value)
            self.assertEqual((kind, size), ("int", value.bit_length()))
            self.assertIsInstance(values.portable([1, value])[1], set)
            self.assertFalse(values.is_bounded({"a": [value]}))
        self.assertEqual(values.portable(1 << 100_000_000), {("int", "<int of 100000001 bits>", 100_000_001)})

    def test_what_lies_deep_in_one_place_and_high_in_another_is_as_deep_as_the_deepest(self) -> None:
        value: List[Any] = [[]]
        parts: List[Any] = []
        for _ in range(3):
            for _ in range(190):
                value = [value]
            parts.append(value)
        self.assertFalse(values.is_bounded(parts))
        self.assertTrue(values.is_bounded(values.portable(parts)))


if __name__ == "__main__":
    unittest.main()
