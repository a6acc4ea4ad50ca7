"""What the template hands to a pid 1 that was stopped does not hold up the template."""

from __future__ import annotations

import os
import signal
import socket
import time
import unittest
from unittest import mock

from cella_kernel import fd_passing
from cella_kernel.supervisor import template


class Handoff(unittest.TestCase):
    def test_a_pid_1_that_leaves_no_room_is_ended_in_time(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        pid = os.fork()
        if pid == 0:
            signal.pause()
            os._exit(0)
        try:
            ours.settimeout(template._SEND_TIMEOUT_S)
            sandbox = template.Sandbox(pid, ours, mock.Mock())
            began = time.monotonic()
            with self.assertRaises(OSError):
                for _ in range(10_000):
                    template._send(sandbox, fd_passing.KERNEL, {"padding": "x" * 1000}, [])
            self.assertLess(time.monotonic() - began, 20)
            self.assertEqual(os.waitpid(pid, 0)[1], signal.SIGKILL)
            pid = 0
        finally:
            if pid:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            ours.close()
            theirs.close()
