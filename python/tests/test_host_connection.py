"""Calls to the host: what becomes of one that is interrupted while it is sent."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
import unittest
from types import FrameType
from typing import Any, List, Optional

from cella_kernel import protocol
from cella_kernel.frames import Channel
from cella_kernel.host_connection import HostConnection
from cella_kernel.interrupts import Interrupts
from cella_kernel.values import pack


class Late(Interrupts):
    """An interrupt that was held back, and comes at the end of the first block that holds it."""

    def __init__(self) -> None:
        super().__init__()
        self.due = True

    def __exit__(self, *words: object) -> None:
        super().__exit__(*words)
        if self.due:
            self.due = False
            raise KeyboardInterrupt


class InterruptedCalls(unittest.TestCase):
    def setUp(self) -> None:
        self.host, self.ours = socket.socketpair()
        self.board = HostConnection(self.ours.fileno(), Late())

    def tearDown(self) -> None:
        self.host.close()
        self.ours.close()

    def heard(self) -> List[int]:
        self.host.setblocking(False)
        channel, kinds = Channel(self.host.fileno()), []
        try:
            channel.fill()
        except BlockingIOError:
            return []
        while True:
            frame = channel.take()
            if frame is None:
                return kinds
            kinds.append(frame[0])

    def test_a_call_that_is_interrupted_while_it_is_sent_is_given_up(self) -> None:
        with self.assertRaises(KeyboardInterrupt):
            self.board.call("tools.call", {})
        self.assertEqual(self.heard(), [protocol.CALL, protocol.CANCEL])

    def test_so_is_one_of_a_task(self) -> None:
        async def ask() -> None:
            await self.board.call_async("tools.call", {})

        loop = asyncio.new_event_loop()
        try:
            with self.assertRaises(KeyboardInterrupt):
                loop.run_until_complete(ask())
        finally:
            loop.close()
        self.assertEqual(self.heard(), [protocol.CALL, protocol.CANCEL])


class AtAnyMoment(unittest.TestCase):
    """Up to Python 3.9 a signal is heard between any two instructions, later ones at calls and loops alone."""

    def setUp(self) -> None:
        self.host, self.ours = socket.socketpair()
        self.interrupts = Interrupts()
        self.board = HostConnection(self.ours.fileno(), self.interrupts)
        self.number = 0
        before = signal.signal(signal.SIGALRM, self.too_late)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        self.addCleanup(signal.alarm, 0)

    def tearDown(self) -> None:
        sys.settrace(None)
        self.host.close()
        self.ours.close()

    def too_late(self, *_: object) -> None:
        raise AssertionError("nobody reads what the host says")

    def answered(self) -> Any:
        """A call whose reply is there already."""
        self.number += 1
        Channel(self.host.fileno()).send(protocol.REPLY, self.number, pack({"value": self.number}))
        return self.board.call("input", {})

    def interrupt_at(self, moment: int) -> bool:
        """Has a signal come after so many instructions of waiting for a reply; False where there are not as many."""
        left = moment

        def look(frame: FrameType, event: str, _: object) -> Optional[Any]:
            nonlocal left
            if frame.f_code.co_name not in ("_wait", "_stop_reading"):
                return None
            frame.f_trace_opcodes = True
            if event == "opcode":
                left -= 1
                if left == 0:
                    sys.settrace(None)
                    self.interrupts._handle(signal.SIGINT, None)
            return look

        self.interrupts.begin(self.number + 1)
        sys.settrace(look)
        try:
            self.answered()
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(None)
            self.interrupts.end()
        return left <= 0

    def test_an_interrupt_leaves_the_connection_to_whoever_waits_next(self) -> None:
        moment = 1
        while self.interrupt_at(moment):
            signal.alarm(5)
            self.assertEqual(self.answered(), self.number, "after moment %d" % moment)
            signal.alarm(0)
            moment += 1
        self.assertGreater(moment, 20)


if __name__ == "__main__":
    unittest.main()
