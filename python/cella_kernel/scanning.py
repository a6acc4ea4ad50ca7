"""Tokens of code that is still being written: unlike `tokenize`, it takes any text and says what is left open."""

from __future__ import annotations

import re
from typing import List, NamedTuple, Optional, Tuple

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
# What may come next in a string: an escape, the end of the line, or a quote.
_IN_STRING = re.compile(r"\\.|\n|\"\"\"|'''|\"|'", re.DOTALL)
_PAIRS = {")": "(", "]": "[", "}": "{"}


class Token(NamedTuple):
    kind: str
    text: str
    start: int
    end: int
    # How many brackets are open around it.
    depth: int


class Unfinished(NamedTuple):
    """The string or comment that the text ends in. `content` is what it holds so far."""

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
    """Where the string that begins here ends, and whether a quote closes it rather than the line or the text."""
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
    """Where the operand that ends with token `last` begins: names, attributes, subscripts and calls in a row."""
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
