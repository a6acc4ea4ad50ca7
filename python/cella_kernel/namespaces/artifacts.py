"""`artifacts`: text, bytes, JSON values, pandas frames, figures and files that the host stores by name.

Decoding an artifact never runs code from it: there is no pickle.
"""

from __future__ import annotations

import io
import json
import os
import sys
from typing import Any, BinaryIO, Dict, Iterator, List, Optional, Tuple, Union

from . import host, pandas_frames

_CHUNK = 4 << 20


class Artifacts:
    """Data that outlives this session, stored by name.

    artifacts.save("report", "text, bytes, a JSON value, a frame, a figure, or an open file", description="...")
    artifacts.load("report")               returns what was saved, with its type
    artifacts.load("report", path="r.txt") writes the bytes to a file, for large artifacts
    artifacts.get("report")                returns type, size, times, description and metadata
    artifacts.list(), .exists(name), .delete(name)
    """

    __slots__ = ()

    def save(
        self, name: str, value: Any, description: str = "", metadata: Optional[Dict[str, Any]] = None
    ) -> Dict[str, Any]:
        """Saves a value under a name, and replaces an artifact that has the name."""
        content, facts = _encode(value)
        try:
            return _send(name, content, {**facts, "description": description, "metadata": _require_json(metadata or {})})
        finally:
            # Closes a file that `_encode` has opened. The code closes its own files.
            if isinstance(value, os.PathLike) and not isinstance(content, bytes):
                content.close()

    def load(self, name: str, path: Union[str, "os.PathLike[str]", None] = None) -> Any:
        """Returns what was saved. With `path`, writes its bytes to that file, and returns the path."""
        opened = host.call("artifacts.open", name=name)
        handle, info = opened["handle"], opened["info"]
        try:
            if path is None:
                return _decode(b"".join(_read(handle, info["size"])), info["type"])
            with open(path, "wb") as file:
                for chunk in _read(handle, info["size"]):
                    file.write(chunk)
            return path
        finally:
            _close("artifacts.close", handle)

    def get(self, name: str) -> Dict[str, Any]:
        """Returns the facts of an artifact, without its content."""
        return host.call("artifacts.get", name=name)

    def list(self) -> List[Dict[str, Any]]:
        """Returns the facts of all artifacts, sorted by name."""
        return host.list_all("artifacts.list")

    def exists(self, name: str) -> bool:
        """Returns whether there is an artifact of this name."""
        try:
            host.call("artifacts.get", name=name)
            return True
        except host.CellaLookupError:
            return False

    def delete(self, name: str) -> None:
        """Deletes an artifact."""
        host.call("artifacts.delete", name=name)

    def __reduce__(self) -> str:
        return "artifacts"

    def __repr__(self) -> str:
        return "<artifacts: artifacts.list() lists them, help(artifacts) explains their use>"


def _send(name: str, content: _Content, facts: Dict[str, Any]) -> Dict[str, Any]:
    handle = host.call("artifacts.begin", name=name)
    try:
        for chunk in _chunks(content):
            host.call("artifacts.write", handle=handle, data=chunk)
        return host.call("artifacts.finish", handle=handle, **facts)
    except BaseException:
        _close("artifacts.abort", handle)
        raise


def _chunks(content: _Content) -> Iterator[bytes]:
    stream = io.BytesIO(content) if isinstance(content, bytes) else content
    while True:
        chunk = stream.read(_CHUNK)
        if not chunk:
            return
        yield bytes(chunk)


def _read(handle: int, size: int) -> Iterator[bytes]:
    for offset in range(0, size, _CHUNK):
        yield host.call("artifacts.read", handle=handle, offset=offset, length=_CHUNK)


def _close(method: str, handle: int) -> None:
    try:
        host.call(method, handle=handle)
    except host.CellaError:
        pass  # the host closes the handle when this kernel ends, at the latest


# Checkpoints refer to it by this name.
artifacts = Artifacts()


_Content = Union[bytes, BinaryIO]


def _encode(value: Any) -> Tuple[_Content, Dict[str, str]]:
    """The bytes, or an open file with them, and the artifact's type and media type."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass"), _facts("text", "text/plain; charset=utf-8")
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value), _facts("bytes", "application/octet-stream")
    if _is_a(value, "pandas", "DataFrame") or _is_a(value, "pandas", "Series"):
        return pandas_frames.encode(value), _facts("frame", "application/vnd.cella.frame+json")
    if _is_a(value, "matplotlib.figure", "Figure"):
        picture = io.BytesIO()
        value.savefig(picture, format="png", bbox_inches="tight")
        return picture.getvalue(), _facts("figure", "image/png")
    if isinstance(value, os.PathLike):
        return open(value, "rb"), _facts("file", "application/octet-stream")
    if hasattr(value, "read"):
        return _binary(value), _facts("file", "application/octet-stream")
    return json.dumps(_require_json(value), ensure_ascii=False).encode("utf-8", "surrogatepass"), _facts("json", "application/json")


def _decode(content: bytes, kind: str) -> Any:
    if kind == "text":
        return content.decode("utf-8", "surrogatepass")
    if kind == "json":
        return json.loads(content.decode("utf-8", "surrogatepass"))
    if kind == "frame":
        return pandas_frames.decode(content)
    return content


def _require_json(value: Any) -> Any:
    """Returns a value that JSON can represent. Raises TypeError for others, and names the part."""
    _check_json(value, "")
    return value


def _check_json(value: Any, where: str) -> None:
    if value is None or isinstance(value, (str, bool, int, float)):
        return
    if isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            _check_json(item, "%s[%d]" % (where, index))
    elif isinstance(value, dict):
        for name, item in value.items():
            if not isinstance(name, str):
                raise TypeError("an artifact%s has the key %r: JSON keys are text" % (_where(where), name))
            _check_json(item, "%s[%r]" % (where, name))
    else:
        kind = type(value)
        raise TypeError(
            "an artifact cannot hold a %s.%s%s: save text, bytes, JSON values, frames, figures or files"
            % (kind.__module__, kind.__qualname__, _where(where))
        )


def _where(where: str) -> str:
    return " (at %s)" % where if where else ""


def _facts(kind: str, media_type: str) -> Dict[str, str]:
    return {"type": kind, "mediaType": media_type}


def _is_a(value: Any, module: str, name: str) -> bool:
    """Whether the value has this type, without importing the module."""
    found = getattr(sys.modules.get(module), name, None)
    return isinstance(found, type) and isinstance(value, found)


def _binary(file: Any) -> BinaryIO:
    """A file for reading bytes. For a text file, its underlying binary file."""
    if isinstance(file, io.TextIOBase):
        below = getattr(file, "buffer", None)
        if below is None:
            return io.BytesIO(file.read().encode("utf-8", "surrogatepass"))
        return below  # type: ignore[no-any-return]
    return file  # type: ignore[no-any-return]
