"""How a fork of pid 1 ends that could not become a kernel."""

import os
import unittest

from cella_kernel import protocol
from cella_kernel.frames import Channel
from cella_kernel.supervisor import children


class Failure(unittest.TestCase):
    def test_a_kernel_that_cannot_report_its_failure_does_not_exit_like_one_without_memory(self) -> None:
        reader, writer = os.pipe()
        os.close(reader)
        pid = os.fork()
        if pid == 0:
            children._end_unconfined(Channel(writer), RuntimeError("no namespaces"))
        os.close(writer)
        _, status = os.waitpid(pid, 0)
        self.assertEqual(os.WEXITSTATUS(status), protocol.EXIT_NOT_ISOLATED)


if __name__ == "__main__":
    unittest.main()
