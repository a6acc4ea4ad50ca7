"""Compiling and running one cell: each statement once, the value of a last expression, top-level await."""

from __future__ import annotations

import __future__
import ast
import asyncio
import os
import re
import selectors
import traceback
from types import CodeType
from typing import Any, Dict, FrozenSet, List, Optional, Tuple

from .. import cell_sources
from ..host_connection import HostConnection
from ..interrupts import Interrupts, uninterrupted
from ..protocol import LONGEST_MESSAGE, LONGEST_NAME, LONGEST_TRACEBACK

_TOP_LEVEL_AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_COROUTINE = 0x80
_FUTURES = 0
for _name in __future__.all_feature_names:
    _FUTURES |= getattr(__future__, _name).compiler_flag
_SILENT = re.compile(r"[ \t\f]*;")
# A line that is a complete statement: without semicolons, and without quotes or brackets that an earlier line could match.
_ENDS_IN_STATEMENT = re.compile(
    r"(?:[^\W\d]\w*(?:\.\w+)*[ ]*(?:[-+*/%&|^@]|//|[*][*]|<<|>>)?=(?!=)|import |from |pass\b)[^;'\"\\#(){}\[\]\r\n]*\Z"
)
# Reads the real name of a class, even if its metaclass defines `__name__`.
_class_name = type.__dict__["__name__"].__get__
# Tracebacks do not show frames of files below this folder.
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_LOOP = asyncio.BaseEventLoop.run_until_complete.__code__.co_filename


class CellRunner:
    """Runs cells in one namespace, with one event loop for all of them."""

    def __init__(self, namespace: Dict[str, Any], interrupts: Interrupts) -> None:
        self._namespace = namespace
        self._interrupts = interrupts
        self._flags = 0
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        # Whether tasks or callbacks of earlier cells may run when the loop does.
        self.leaves_work = False

    @uninterrupted
    def run(self, number: int, source: str) -> Any:
        """Returns the value of the last expression, or None. Raises what the code raises."""
        name = cell_sources.file_name(number)
        cell_sources.remember(name, source)
        body, last = self._compile(name, source)
        expression = None if last is None else last[0]
        waits = any(code is not None and code.co_flags & _COROUTINE for code in (body, expression))
        try:
            self._interrupts.begin(number)
            # A cell with an `await` anywhere runs on the loop completely, so that its other lines can start tasks there.
            value = self._wait(self._run_on_loop(body, expression)) if waits else self._run_plainly(body, expression)
            return None if last is None or last[1] else value
        finally:
            self._interrupts.end()
            self.leaves_work = self._loop is not None

    def _run_plainly(self, body: Optional[CodeType], expression: Optional[CodeType]) -> Any:
        if body is not None:
            eval(body, self._namespace)
        return None if expression is None else eval(expression, self._namespace)

    async def _run_on_loop(self, body: Optional[CodeType], expression: Optional[CodeType]) -> Any:
        value = None
        for code in (body, expression):
            if code is not None:
                value = eval(code, self._namespace)
                if code.co_flags & _COROUTINE:
                    value = await value
        return value

    def _compile(self, name: str, source: str) -> Tuple[Optional[CodeType], Optional[Tuple[CodeType, bool]]]:
        # Most cells that do not end in an expression can be recognized by their last line, without parsing.
        no_value = "class" not in source and _ENDS_IN_STATEMENT.match(source, source.rfind("\n") + 1) is not None
        try:
            tree = compile(source, name, "exec", (0 if no_value else ast.PyCF_ONLY_AST) | _TOP_LEVEL_AWAIT | self._flags, True)
        except UnicodeEncodeError as error:
            line = source.count("\n", 0, error.start) + 1
            message = "the code contains a lone surrogate, U+%04X" % ord(source[error.start])
            raise SyntaxError(message, (name, line, None, None)) from None
        except ValueError as error:
            line = source.count("\n", 0, max(source.find("\0"), 0)) + 1
            raise SyntaxError(str(error), (name, line, None, None)) from None
        except SyntaxError as error:
            # Later versions of Python report a null byte as a SyntaxError without a line.
            if error.lineno is None and "\0" in source:
                error.filename, error.lineno = name, source.count("\n", 0, source.find("\0")) + 1
            raise
        except MemoryError:
            raise SyntaxError("the code is nested too deeply to be parsed", (name, 1, None, None)) from None
        if isinstance(tree, CodeType):
            self._flags |= tree.co_flags & _FUTURES
            return tree, None
        statements: List[ast.stmt] = tree.body
        cell_sources.remember_classes(name, source, statements)
        expression = statements.pop() if statements and type(statements[-1]) is ast.Expr else None
        body = None
        if statements:
            body = compile(tree, name, "exec", _TOP_LEVEL_AWAIT | self._flags, True)
            self._flags |= body.co_flags & _FUTURES
        if not isinstance(expression, ast.Expr):
            return body, None
        code = compile(ast.Expression(expression.value), name, "eval", _TOP_LEVEL_AWAIT | self._flags, True)
        return body, (code, _ends_in_semicolon(source, expression))

    def _wait(self, coroutine: Any) -> Any:
        loop = self._event_loop()
        task = loop.create_task(coroutine)
        try:
            return loop.run_until_complete(task)
        except KeyboardInterrupt:
            if not task.done():
                task.cancel()
                try:
                    loop.run_until_complete(task)
                except asyncio.CancelledError:
                    pass  # the result of task.cancel()
            raise

    def _event_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is not None and not _usable(self._loop):
            self._loop = None
        if self._loop is None:
            # poll, as an epoll descriptor would be shared with every fork of this kernel.
            self._loop = asyncio.SelectorEventLoop(selectors.PollSelector())
            asyncio.set_event_loop(self._loop)
        return self._loop

    def after_fork(self) -> None:
        """Replaces the pipe that wakes the loop, which is shared with the process that this one was forked from."""
        loop: Any = self._loop
        if loop is not None and _usable(loop):
            loop._close_self_pipe()
            loop._make_self_pipe()

    def tasks(self) -> FrozenSet[Any]:
        """The unfinished tasks of earlier cells."""
        return frozenset() if self._loop is None or self._loop.is_closed() else frozenset(asyncio.all_tasks(self._loop))

    def cancel_tasks_except(self, kept: FrozenSet[Any]) -> None:
        """After a rollback: cancels tasks that were started since the snapshot."""
        for task in self.tasks() - kept:
            task.cancel()

    def run_between_cells(self, host: HostConnection) -> None:
        """Runs tasks of earlier cells until the host sends a frame for the main loop."""
        loop: Any = self._loop
        if loop is None or loop.is_closed():
            self.leaves_work = False
            return
        tasks = asyncio.all_tasks(loop)
        self.leaves_work = bool(tasks or loop._scheduled or loop._ready)
        if not tasks:
            return
        host.begin_between_cells(loop)
        try:
            while True:
                try:
                    return loop.run_forever()
                except (SystemExit, KeyboardInterrupt):
                    # Raised by a task: it ends that task, not the kernel and not other tasks.
                    traceback.print_exc()
        except BaseException:
            traceback.print_exc()
        finally:
            host.end_between_cells()


def _usable(loop: asyncio.AbstractEventLoop) -> bool:
    """False if the code has closed the loop or the descriptors that wake it."""
    if loop.is_closed():
        return False
    try:
        os.fstat(loop._ssock.fileno())  # type: ignore[attr-defined]
        return True
    except (OSError, AttributeError):
        return False


def _ends_in_semicolon(source: str, expression: ast.Expr) -> bool:
    line = cell_sources.lines(source)[expression.end_lineno - 1] if expression.end_lineno else ""
    rest = line.encode("utf-8", "surrogatepass")[expression.end_col_offset :].decode("utf-8", "replace")
    return _SILENT.match(rest) is not None


def describe(error: BaseException) -> Dict[str, Any]:
    """An exception for the result: its traceback has the cell's source lines, and none of the kernel's frames."""
    name = _class_name(type(error))
    try:
        message = str(error)
    except BaseException:
        message = "<str() of this %s failed>" % name
    try:
        described_error = traceback.TracebackException(type(error), error, error.__traceback__)
        _hide_kernel_frames(described_error)
        text = "".join(described_error.format())
    except BaseException as problem:
        text = "%s: %s\n(the traceback could not be created: %s)\n" % (name, message, type(problem).__name__)
    described: Dict[str, Any] = {
        "name": _shortened(name, LONGEST_NAME),
        "message": _shortened(message, LONGEST_MESSAGE),
        "traceback": _shortened(text, LONGEST_TRACEBACK),
    }
    if isinstance(error, SystemExit):
        described["exitCode"] = _exit_code(error.code)
    return described


def _exit_code(code: Any) -> int:
    if code is None:
        return 0
    return int(code) if type(code) in (int, bool) and abs(code) < 1 << 31 else 1


def _shortened(text: str, longest: int) -> str:
    """A plain `str`, without the middle if the text is too long."""
    text = str.__str__(text)
    if len(text) <= longest:
        return text
    # Less than half of `longest`, to leave room for the note.
    half = longest // 2 - 40
    return "%s\n… %d characters are left out here …\n%s" % (text[:half], len(text) - 2 * half, text[-half:])


def _is_kernel_frame(frame: traceback.FrameSummary) -> bool:
    """Whether it is a frame of the kernel, or of the event loop that the kernel has called."""
    return frame.filename.startswith(_PACKAGE) or (frame.name == "run_until_complete" and frame.filename == _LOOP)


def _hide_kernel_frames(error: traceback.TracebackException) -> None:
    seen = set()
    waiting: List[Optional[traceback.TracebackException]] = [error]
    while waiting:
        part = waiting.pop()
        if part is None or id(part) in seen:
            continue
        seen.add(id(part))
        part.stack[:] = [frame for frame in part.stack if not _is_kernel_frame(frame)]
        waiting += [part.__cause__, part.__context__, *(getattr(part, "exceptions", None) or ())]
