"""What an artifact's bytes are, and back. Nothing here runs code that the bytes bring: no pickle."""

from __future__ import annotations

import io
import json
import os
import sys
from typing import Any, BinaryIO, Dict, Tuple, Union

from . import frames_of_pandas

Content = Union[bytes, BinaryIO]


def encode(value: Any) -> Tuple[Content, Dict[str, str]]:
    """The bytes, or an open file to read them from, with the artifact's type and media type."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass"), _facts("text", "text/plain; charset=utf-8")
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value), _facts("bytes", "application/octet-stream")
    if _is_a(value, "pandas", "DataFrame") or _is_a(value, "pandas", "Series"):
        return frames_of_pandas.encode(value), _facts("frame", "application/vnd.cella.frame+json")
    if _is_a(value, "matplotlib.figure", "Figure"):
        picture = io.BytesIO()
        value.savefig(picture, format="png", bbox_inches="tight")
        return picture.getvalue(), _facts("figure", "image/png")
    if isinstance(value, os.PathLike):
        return open(value, "rb"), _facts("file", "application/octet-stream")
    if hasattr(value, "read"):
        return _binary(value), _facts("file", "application/octet-stream")
    return json.dumps(plain(value), ensure_ascii=False).encode("utf-8", "surrogatepass"), _facts("json", "application/json")


def decode(content: bytes, kind: str) -> Any:
    if kind == "text":
        return content.decode("utf-8", "surrogatepass")
    if kind == "json":
        return json.loads(content.decode("utf-8", "surrogatepass"))
    if kind == "frame":
        return frames_of_pandas.decode(content)
    return content


def plain(value: Any) -> Any:
    """The value where JSON can hold it and give it back; else a TypeError that says what cannot be kept."""
    _check(value, "")
    return value


def _check(value: Any, where: str) -> None:
    if value is None or isinstance(value, (str, bool, int, float)):
        return
    if isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            _check(item, "%s[%d]" % (where, index))
    elif isinstance(value, dict):
        for name, item in value.items():
            if not isinstance(name, str):
                raise TypeError("an artifact%s has the key %r: JSON keys are text" % (_place(where), name))
            _check(item, "%s[%r]" % (where, name))
    else:
        kind = type(value)
        raise TypeError(
            "an artifact cannot hold a %s.%s%s: save text, bytes, JSON values, frames, figures or files"
            % (kind.__module__, kind.__qualname__, _place(where))
        )


def _place(where: str) -> str:
    return " (at %s)" % where if where else ""


def _facts(kind: str, media_type: str) -> Dict[str, str]:
    return {"type": kind, "mediaType": media_type}


def _is_a(value: Any, module: str, name: str) -> bool:
    """Without importing anything that the code has not."""
    found = getattr(sys.modules.get(module), name, None)
    return isinstance(found, type) and isinstance(value, found)


def _binary(file: Any) -> BinaryIO:
    """A file that was opened as text has a binary one below, where it has begun at the beginning."""
    if isinstance(file, io.TextIOBase):
        below = getattr(file, "buffer", None)
        if below is None:
            return io.BytesIO(file.read().encode("utf-8", "surrogatepass"))
        return below  # type: ignore[no-any-return]
    return file  # type: ignore[no-any-return]
