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
from ..interrupts import Interrupts, whole
from ..protocol import LONGEST_MESSAGE, LONGEST_NAME, LONGEST_TRACEBACK

_TOP_LEVEL_AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_COROUTINE = 0x80
_FUTURES = 0
for _name in __future__.all_feature_names:
    _FUTURES |= getattr(__future__, _name).compiler_flag
_SILENT = re.compile(r"[ \t\f]*;")
# A whole statement on one line, with no quote or bracket that an earlier line could have opened, and no semicolon.
_ENDS_IN_STATEMENT = re.compile(
    r"(?:[^\W\d]\w*(?:\.\w+)*[ ]*(?:[-+*/%&|^@]|//|[*][*]|<<|>>)?=(?!=)|import |from |pass\b)[^;'\"\\#(){}\[\]\r\n]*\Z"
)
# The class's own name, whatever its metaclass makes of `__name__`.
_class_name = type.__dict__["__name__"].__get__
# Frames of files below it are the kernel's own: no traceback shows them.
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_LOOP = asyncio.BaseEventLoop.run_until_complete.__code__.co_filename


class CellRunner:
    """Runs cells in one namespace, on one event loop that lives as long as the kernel."""

    def __init__(self, namespace: Dict[str, Any], interrupts: Interrupts) -> None:
        self._namespace = namespace
        self._interrupts = interrupts
        self._flags = 0
        self._loop: Optional[asyncio.AbstractEventLoop] = None
        # Whether what earlier cells have begun may go on while the next one waits.
        self.leaves_work = False

    @whole
    def run(self, number: int, source: str) -> Any:
        """Returns the last expression's value, or None. Whatever the code raises comes out of here."""
        name = cell_sources.file_name(number)
        cell_sources.remember(name, source)
        body, last = self._compile(name, source)
        expression = None if last is None else last[0]
        waits = any(code is not None and code.co_flags & _COROUTINE for code in (body, expression))
        try:
            self._interrupts.begin(number)
            # A cell that waits anywhere runs on the loop as a whole, so that its other lines can start tasks there.
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
        whole = "class" not in source and _ENDS_IN_STATEMENT.match(source, source.rfind("\n") + 1) is not None
        try:
            tree = compile(source, name, "exec", (0 if whole else ast.PyCF_ONLY_AST) | _TOP_LEVEL_AWAIT | self._flags, True)
        except UnicodeEncodeError as error:
            line = source.count("\n", 0, error.start) + 1
            message = "the code holds a lone surrogate, U+%04X" % ord(source[error.start])
            raise SyntaxError(message, (name, line, None, None)) from None
        except ValueError as error:
            line = source.count("\n", 0, max(source.find("\0"), 0)) + 1
            raise SyntaxError(str(error), (name, line, None, None)) from None
        except SyntaxError as error:
            # Later versions of Python say so by themselves, without a line.
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
        return body, (code, _ends_silent(source, expression))

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
                    pass  # that is what was asked for
            raise

    def _event_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is not None and not _usable(self._loop):
            self._loop = None
        if self._loop is None:
            # poll, not epoll: an epoll descriptor would be shared with every fork of this kernel.
            self._loop = asyncio.SelectorEventLoop(selectors.PollSelector())
            asyncio.set_event_loop(self._loop)
        return self._loop

    def after_fork(self) -> None:
        """The pipe that wakes the loop up would be shared with the process that this one was forked from."""
        loop: Any = self._loop
        if loop is not None and _usable(loop):
            loop._close_self_pipe()
            loop._make_self_pipe()

    def tasks(self) -> FrozenSet[Any]:
        """Those that cells have left behind."""
        return frozenset() if self._loop is None or self._loop.is_closed() else frozenset(asyncio.all_tasks(self._loop))

    def end_tasks_but(self, kept: FrozenSet[Any]) -> None:
        """What was begun since belongs to a time that is no more."""
        for task in self.tasks() - kept:
            task.cancel()

    def go_on(self, host: HostConnection) -> None:
        """Lets tasks that cells left behind run until the host sends something for the main loop."""
        loop: Any = self._loop
        if loop is None or loop.is_closed():
            self.leaves_work = False
            return
        tasks = asyncio.all_tasks(loop)
        self.leaves_work = bool(tasks or loop._scheduled or loop._ready)
        if not tasks:
            return
        host.go_on(loop)
        try:
            while True:
                try:
                    return loop.run_forever()
                except (SystemExit, KeyboardInterrupt):
                    # These come out of a task: they end that task, not the kernel nor the other tasks.
                    traceback.print_exc()
        except BaseException:
            traceback.print_exc()
        finally:
            host.go_on_no_more()


def _usable(loop: asyncio.AbstractEventLoop) -> bool:
    """False where the code closed the loop, or the descriptors it wakes up by."""
    if loop.is_closed():
        return False
    try:
        os.fstat(loop._ssock.fileno())  # type: ignore[attr-defined]
        return True
    except (OSError, AttributeError):
        return False


def _ends_silent(source: str, expression: ast.Expr) -> bool:
    line = cell_sources.lines(source)[expression.end_lineno - 1] if expression.end_lineno else ""
    rest = line.encode("utf-8", "surrogatepass")[expression.end_col_offset :].decode("utf-8", "replace")
    return _SILENT.match(rest) is not None


def describe(error: BaseException) -> Dict[str, Any]:
    """What the result says of an exception: without the kernel's own frames, with the cell's source lines."""
    name = _class_name(type(error))
    try:
        message = str(error)
    except BaseException:
        message = "<str() of this %s failed>" % name
    try:
        whole = traceback.TracebackException(type(error), error, error.__traceback__)
        _hide_kernel(whole)
        text = "".join(whole.format())
    except BaseException as problem:
        text = "%s: %s\n(its traceback could not be made: %s)\n" % (name, message, type(problem).__name__)
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
    """Plain text, whatever subclass of it the code made, with its beginning and its end where it is too long."""
    text = str.__str__(text)
    if len(text) <= longest:
        return text
    # Less than half, so that there is room for the words between.
    half = longest // 2 - 40
    return "%s\n… %d characters are left out here …\n%s" % (text[:half], len(text) - 2 * half, text[-half:])


def _is_machinery(frame: traceback.FrameSummary) -> bool:
    """The kernel's own, and the way from it through its event loop."""
    return frame.filename.startswith(_PACKAGE) or (frame.name == "run_until_complete" and frame.filename == _LOOP)


def _hide_kernel(whole: traceback.TracebackException) -> None:
    seen = set()
    waiting: List[Optional[traceback.TracebackException]] = [whole]
    while waiting:
        part = waiting.pop()
        if part is None or id(part) in seen:
            continue
        seen.add(id(part))
        part.stack[:] = [frame for frame in part.stack if not _is_machinery(frame)]
        waiting += [part.__cause__, part.__context__, *(getattr(part, "exceptions", None) or ())]
