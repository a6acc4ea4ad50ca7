"""Scans code that is still being written: its tokens, its open brackets and strings, and whether it is complete.

Unlike `tokenize`, it accepts any text.
"""

from __future__ import annotations

import ast
import codeop
import re
import warnings
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

_TOKEN = re.compile(
    r"""(?P<space>[ \t\f\r]+|\\\r?\n)
    |(?P<comment>\#[^\n]*)
    |(?P<string>[rRbBuUfFtT]{0,2}(?:\"\"\"|'''|"|'))
    |(?P<name>[^\W\d]\w*)
    |(?P<number>\d[\w.]*)
    |(?P<newline>\n)
    |(?P<op>.)""",
    re.VERBOSE | re.DOTALL,
)
# What matters inside a string: an escape, the end of the line, or a quote.
_IN_STRING = re.compile(r"\\.|\n|\"\"\"|'''|\"|'", re.DOTALL)
_PAIRS = {")": "(", "]": "[", "}": "{"}


class Token(NamedTuple):
    kind: str
    text: str
    start: int
    end: int
    # How many brackets around it are open.
    depth: int


class Unfinished(NamedTuple):
    """The string or comment that the text ends in, with its content so far."""

    kind: str
    prefix: str
    quote: str
    content: str


class Scan(NamedTuple):
    tokens: List[Token]
    # Indexes of the brackets that are still open, outermost first.
    opened: List[int]
    unfinished: Optional[Unfinished]


def scan(text: str) -> Scan:
    tokens: List[Token] = []
    opened: List[int] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            break
        kind, start, end = str(match.lastgroup), position, match.end()
        if kind == "comment" and end == len(text):
            return Scan(tokens, opened, Unfinished("comment", "", "", match.group()[1:]))
        if kind == "string":
            prefix, quote = _split(match.group())
            end, closed = _string_end(text, end, quote)
            if not closed and end == len(text):
                return Scan(tokens, opened, Unfinished("string", prefix.lower(), quote, text[match.end() :]))
        position = end
        if kind in ("space", "comment") or (kind == "newline" and opened):
            continue
        word = text[start:end]
        if word in _PAIRS and opened and tokens[opened[-1]].text == _PAIRS[word]:
            opened.pop()
        tokens.append(Token(kind, word, start, end, len(opened)))
        if kind == "op" and word in "([{":
            opened.append(len(tokens) - 1)
    return Scan(tokens, opened, None)


def _split(opening: str) -> Tuple[str, str]:
    quote = opening.lstrip("rRbBuUfFtT")
    return opening[: len(opening) - len(quote)], quote


def _string_end(text: str, position: int, quote: str) -> Tuple[int, bool]:
    """Where the string ends, and whether a quote ends it, not the end of the line or the text."""
    while True:
        match = _IN_STRING.search(text, position)
        if match is None:
            return len(text), False
        found = match.group()
        if found == "\n" and len(quote) == 1:
            return match.start(), False
        if found.startswith(quote):
            return match.start() + len(quote), True
        position = match.start() + 1 if found[0] in "\"'" else match.end()


def statement(tokens: List[Token]) -> List[Token]:
    """The tokens of the statement that the text ends in."""
    for index in range(len(tokens) - 1, -1, -1):
        token = tokens[index]
        if token.depth == 0 and (token.kind == "newline" or token.text in (";", ":")):
            return tokens[index + 1 :]
    return tokens


def primary_start(tokens: List[Token], last: int, keywords: "frozenset[str]") -> Optional[int]:
    """The first token of the operand that ends with token `last`: a chain of names, attributes, subscripts and calls."""
    index = last
    while index >= 0:
        token = tokens[index]
        if token.kind == "op" and token.text in _PAIRS:
            index = _opening(tokens, index)
            if index < 0:
                return None
            before = tokens[index - 1] if index else None
            if before is not None and tokens[index].text != "{" and _ends_operand(before, keywords):
                index -= 1
                continue
        elif token.kind not in ("name", "string", "number"):
            return None
        if index < 2 or tokens[index - 1].text != ".":
            return index
        index -= 2
    return None


def _opening(tokens: List[Token], closing: int) -> int:
    wanted, depth = _PAIRS[tokens[closing].text], tokens[closing].depth
    for index in range(closing - 1, -1, -1):
        if tokens[index].text == wanted and tokens[index].depth == depth:
            return index
    return -1


def _ends_operand(token: Token, keywords: "frozenset[str]") -> bool:
    if token.kind == "name":
        return token.text not in keywords
    return token.kind == "string" or token.text in _PAIRS


_NAME = "<cell>"
_STEP = "    "
# After these statements, a block has ended.
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
    """Whether the next line may continue the last block. A blank line ends it."""
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
    """The last list of statements directly inside a statement, or its exception handlers or `match` cases."""
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
    """The last line that is neither empty nor a comment, and its words."""
    for line in reversed(code.split("\n")):
        if line.strip() and not line.lstrip().startswith("#"):
            return line, line.split()
    return "", []
