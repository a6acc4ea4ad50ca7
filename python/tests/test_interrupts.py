"""Interrupts that come for one execution, one upon the other."""

from __future__ import annotations

import marshal
import signal
import sys
import unittest
from types import FrameType
from typing import Any, Callable, Dict, List, Optional

from cella_kernel.kernel import kernel as kernels

_MACHINERY = ("run", "_execute", "_answer", "begin", "end", "finish")


class Silent:
    """The output of a kernel that has none."""

    def begin(self, *_: object) -> None:
        pass

    def end(self) -> None:
        return None


class OneUponTheOther(unittest.TestCase):
    """Up to Python 3.9 a signal is heard between any two instructions, later ones at calls and loops alone."""

    def setUp(self) -> None:
        self.kernel = kernels.Kernel()
        self.kernel._output = Silent()  # type: ignore[assignment]
        self.kernel._namespace["interrupted"] = self.interrupted
        self.kernel._repair = self.watch  # type: ignore[method-assign]
        self.told: List[Dict[str, Any]] = []
        # After how many instructions the next one comes, and those after it.
        self.due: List[int] = []

    def tearDown(self) -> None:
        sys.settrace(None)

    def interrupted(self) -> None:
        """Called by the cell: the first interrupt comes here, and the others on the way from here to the result."""
        self.watch()
        raise KeyboardInterrupt

    def watch(self) -> None:
        """From the next instruction of the machinery on: Python stops watching where an interrupt is raised meanwhile."""
        frame: Optional[FrameType] = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_name in _MACHINERY:
                frame.f_trace, frame.f_trace_opcodes = self.look, True
            frame = frame.f_back
        sys.settrace(self.look)

    def look(self, frame: FrameType, event: str, _: object) -> Optional[Callable[..., Any]]:
        if frame.f_code.co_name not in _MACHINERY:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and self.due:
            self.due[0] -= 1
            if self.due[0] == 0:
                del self.due[0]
                self.kernel._interrupts._handle(signal.SIGINT, frame)
        return self.look

    def interrupt_at(self, *moments: int) -> bool:
        """False where there are not as many instructions."""
        self.due = list(moments)
        self.kernel._execute(1, bytes(16) + b"interrupted()", self.tell)
        sys.settrace(None)
        return not self.due

    def tell(self, _kind: int, _number: int, payload: bytes) -> None:
        self.told.append(marshal.loads(payload))

    def test_a_third_interrupt_ends_the_cell_and_never_the_kernel(self) -> None:
        for second in range(1, 30):
            third = 1
            while self.interrupt_at(second, third):
                result = self.told.pop()
                self.assertEqual((result["status"], result["error"]["name"]), ("error", "KeyboardInterrupt"))
                self.assertEqual(self.kernel._interrupts.active, 0)
                third += 1
            self.assertGreater(third, 5)


if __name__ == "__main__":
    unittest.main()
