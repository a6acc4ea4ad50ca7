"""Whether code can run as it is, wants more lines, or can never be right."""

from __future__ import annotations

import ast
import codeop
import warnings
from typing import Any, Dict, List, Tuple

from .scanning import scan

_NAME = "<cell>"
_STEP = "    "
# After these, the block that they stand in has nothing more to say.
_LEAVES = ("return", "pass", "raise", "break", "continue")


def is_complete(code: str) -> Dict[str, Any]:
    compiler = codeop.CommandCompiler()
    compiler.compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled = compiler(code, _NAME, "exec")
            complete = compiled is not None and not _ends_in_open_block(code)
    except SyntaxError as error:
        place = " (line %d)" % error.lineno if error.lineno and "at line" not in error.msg else ""
        return {"status": "invalid", "message": "%s: %s%s" % (type(error).__name__, error.msg, place)}
    except (ValueError, OverflowError) as error:
        return {"status": "invalid", "message": "SyntaxError: %s" % error}
    except (MemoryError, RecursionError):
        return {"status": "invalid", "message": "SyntaxError: the code is nested too deeply to be parsed"}
    return {"status": "complete"} if complete else {"status": "incomplete", "indent": _next_indent(code)}


def _ends_in_open_block(code: str) -> bool:
    """Complete as it stands, but the next line may go on with the block: a blank line says that it does not."""
    lines = code.split("\n")
    if not lines[-1].strip():
        return False
    tree = compile(code, _NAME, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if not tree.body:
        return False
    first = last = tree.body[-1]
    while True:
        inner = _inner_statements(last)
        if not inner:
            break
        last = inner[-1]
    if last.lineno == first.lineno or last is first:
        return False
    return lines[-1][0] in " \t" or last.end_lineno == len(lines)


def _inner_statements(node: ast.AST) -> List[Any]:
    """The last list of statements below this one; handlers of exceptions and cases of a match are looked into."""
    for field in ("finalbody", "orelse", "handlers", "cases", "body"):
        found = getattr(node, field, None)
        if isinstance(found, list) and found:
            return found
    return []


def _next_indent(code: str) -> str:
    tokens, opened, unfinished = scan(code)
    if unfinished is not None and unfinished.kind == "string":
        return ""
    line, words = _last_line(code)
    indent = line[: len(line) - len(line.lstrip())]
    tail = [token for token in tokens if token.kind != "newline"]
    if not tail:
        return indent
    if opened:
        return indent + _STEP if tail[-1].text in "([{" else indent
    if tail[-1].text == ":":
        return indent + _STEP
    if words and words[0] in _LEAVES and indent:
        return indent[:-1] if indent.endswith("\t") else indent[: -len(_STEP)]
    return indent


def _last_line(code: str) -> Tuple[str, List[str]]:
    """The last line that says something, and its words."""
    for line in reversed(code.split("\n")):
        if line.strip() and not line.lstrip().startswith("#"):
            return line, line.split()
    return "", []
