"""The kernel as it is in WebAssembly: the same, but for what takes a process to do."""

from __future__ import annotations

import functools
import os
import sys
from typing import Any, Dict, FrozenSet, Tuple

from .. import frames, sources
from ..kernel import OWN, Kernel
from ..values import pack
from . import saving, signals
from .bell import Bell
from .names import Names


class WasmKernel(Kernel):
    def __init__(self) -> None:
        super().__init__()
        # There is no thread to flush what was printed: it goes out at once.
        self._output.flush_at_once()
        self._moments: Dict[int, Tuple[Names, FrozenSet[Any]]] = {}

    def rehearse(self, rounds: int = 20) -> None:
        for number in range(rounds):
            self._runner.run(0, "rehearsed = %d\nrehearsed\n" % number)
        self._forget_rehearsal()

    def adopt(self) -> None:  # type: ignore[override]
        """The descriptors are there already."""
        sys.modules["__main__"] = self._main
        self.bell = Bell(OWN[-1])
        self._interrupts.arm(self.bell)  # type: ignore[arg-type]
        signals.install(self.bell, self._interrupts)
        self._output.install()
        self._pid = os.getpid()
        self._switchboard.belong_to(self._pid)

    def _handle(self, kind: int, number: int, payload: bytes) -> None:
        if kind == frames.ATTACH:
            # Not JSON: its module uses builtins, which the code may have replaced, and which come back only now.
            self._go_back(number, payload == b"keep")
        elif kind == frames.DROP:
            self._moments.pop(number, None)
        else:
            super()._handle(kind, number, payload)

    def _twin(self, number: int) -> None:
        """Keeps this moment: what the names hold, as far as it can be put back."""
        answer: Dict[str, Any] = {}
        try:
            self._moments[number] = Names(self._namespace), self._runner.tasks()
        except Exception as error:
            answer = {"unsafe": "its names could not be kept: %s" % (str(error) or type(error).__name__)}
        self._switchboard.send(frames.TWINNED, number, pack(answer))

    def _go_back(self, number: int, keep: bool) -> None:
        moment, tasks = self._moments[number] if keep else self._moments.pop(number)
        moment.put_back()
        self._switchboard.start_over()
        self._runner.end_tasks_but(tasks)
        self._repair()
        self._interrupts.arm(self.bell)  # type: ignore[arg-type]
        self._say_hello()

    def _save(self, number: int, settings: Dict[str, Any]) -> None:
        self._output.flush()
        send = functools.partial(self._send_as, number)
        saving.save(send, self.bell, self._namespace, sources.texts(), settings["limitBytes"], settings["seconds"])
