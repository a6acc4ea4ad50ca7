"""Calls to the host: what becomes of one that is interrupted while it is sent."""

from __future__ import annotations

import asyncio
import socket
import unittest
from typing import List

from cella_kernel import frames
from cella_kernel.frames import Channel
from cella_kernel.interrupts import Interrupts
from cella_kernel.switchboard import Switchboard


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
        self.board = Switchboard(self.ours.fileno(), Late())

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
        self.assertEqual(self.heard(), [frames.CALL, frames.CANCEL])

    def test_so_is_one_of_a_task(self) -> None:
        async def ask() -> None:
            await self.board.call_async("tools.call", {})

        loop = asyncio.new_event_loop()
        try:
            with self.assertRaises(KeyboardInterrupt):
                loop.run_until_complete(ask())
        finally:
            loop.close()
        self.assertEqual(self.heard(), [frames.CALL, frames.CANCEL])


if __name__ == "__main__":
    unittest.main()
