"""input(), getpass and sys.stdin: the kernel asks the host for every line."""

from __future__ import annotations

import builtins
import getpass
import io
import sys
from typing import Any, Callable

Ask = Callable[[str, bool], str]


class Stdin(io.TextIOBase):
    """sys.stdin: each line is an input request without a prompt. If nobody answers, the file ends."""

    encoding = "utf-8"
    errors = "strict"
    mode = "r"
    name = "<stdin>"

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._rest = ""

    def readable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return False

    def fileno(self) -> int:
        return 0

    def readline(self, size: int = -1) -> str:  # type: ignore[override]
        if not self._rest:
            try:
                self._rest = self._ask("", False) + "\n"
            except EOFError:
                return ""
        end = len(self._rest) if size is None or size < 0 else size
        line, self._rest = self._rest[:end], self._rest[end:]
        return line

    def read(self, size: int = -1) -> str:  # type: ignore[override]
        if size is None or size < 0:
            return "".join(iter(self.readline, ""))
        text = ""
        while len(text) < size:
            line = self.readline(size - len(text))
            if not line:
                break
            text += line
        return text


def install(ask: Ask) -> None:
    def input(prompt: Any = "", /) -> str:
        """Asks the user for one line of text."""
        if sys.stdin is not stdin:
            # The code has replaced sys.stdin and expects to read from it.
            return original(prompt)
        return ask(str(prompt), False)

    def ask_password(prompt: str = "Password: ", stream: Any = None) -> str:
        """Asks the user for one line without showing it."""
        return ask(str(prompt), True)

    original = builtins.input
    stdin = Stdin(ask)
    input.__module__ = "builtins"
    builtins.input = input
    getpass.getpass = ask_password
    sys.stdin = sys.__stdin__ = stdin  # type: ignore[assignment,misc]
