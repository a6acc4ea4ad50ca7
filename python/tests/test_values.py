"""Values on their way to the host: what would cost it too much travels as its repr."""

from __future__ import annotations

import unittest
from typing import Any, List

from cella_kernel import values


class Costs(unittest.TestCase):
    def test_plain_parts_travel_by_the_million_and_bytes_do_not(self) -> None:
        numbers = [0] * 2_000_000
        self.assertIs(values.portable(numbers), numbers)
        for costly in [b""] * 1_200_000, {"a": [b"", *numbers], "b": [b""] * 1_200_000}:
            ((kind, text),) = values.portable(costly)
            self.assertEqual(kind, type(costly).__name__)
            self.assertLess(len(text), 5000)
        few = [b"", *numbers]
        self.assertIs(values.portable(few), few)

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
