"""`artifacts`: what agents keep: text, bytes, JSON values, pandas frames, figures and files, by name."""

from __future__ import annotations

import io
import os
from typing import Any, Dict, Iterator, List, Optional, Union

from . import encoding, host

_CHUNK = 4 << 20


class Artifacts:
    """What is kept beyond this session, by name.

    artifacts.save("report", "text, bytes, a JSON value, a frame, a figure, or an open file", description="...")
    artifacts.load("report")               what was saved, as what it was
    artifacts.load("report", path="r.txt") its bytes in a file, for large ones
    artifacts.get("report")                what is known of it: type, size, times, description, metadata
    artifacts.list(), .exists(name), .delete(name)
    """

    __slots__ = ()

    def save(
        self, name: str, value: Any, description: str = "", metadata: Optional[Dict[str, Any]] = None
    ) -> Dict[str, Any]:
        """Keeps a value under a name, in place of what had it before."""
        content, facts = encoding.encode(value)
        try:
            return _send(name, content, {**facts, "description": description, "metadata": encoding.plain(metadata or {})})
        finally:
            # A file that the code has opened is the code's to close.
            if isinstance(value, os.PathLike) and not isinstance(content, bytes):
                content.close()

    def load(self, name: str, path: Union[str, "os.PathLike[str]", None] = None) -> Any:
        """What was saved. With `path`, its bytes are written to that file, and the path is given."""
        opened = host.call("artifacts.open", name=name)
        handle, info = opened["handle"], opened["info"]
        try:
            if path is None:
                return encoding.decode(b"".join(_read(handle, info["size"])), info["type"])
            with open(path, "wb") as file:
                for chunk in _read(handle, info["size"]):
                    file.write(chunk)
            return path
        finally:
            _let_go("artifacts.close", handle)

    def get(self, name: str) -> Dict[str, Any]:
        """What is known of an artifact, without its content."""
        return host.call("artifacts.get", name=name)

    def list(self) -> List[Dict[str, Any]]:
        """What is known of every artifact, by name."""
        return host.every("artifacts.list")

    def exists(self, name: str) -> bool:
        """Whether there is one of that name."""
        try:
            host.call("artifacts.get", name=name)
            return True
        except host.CellaLookupError:
            return False

    def delete(self, name: str) -> None:
        """Forgets an artifact."""
        host.call("artifacts.delete", name=name)

    def __reduce__(self) -> str:
        return "artifacts"

    def __repr__(self) -> str:
        return "<artifacts: artifacts.list() shows them, help(artifacts) tells how to use them>"


def _send(name: str, content: encoding.Content, facts: Dict[str, Any]) -> Dict[str, Any]:
    handle = host.call("artifacts.begin", name=name)
    try:
        for chunk in _chunks(content):
            host.call("artifacts.write", handle=handle, data=chunk)
        return host.call("artifacts.finish", handle=handle, **facts)
    except BaseException:
        _let_go("artifacts.abort", handle)
        raise


def _chunks(content: encoding.Content) -> Iterator[bytes]:
    stream = io.BytesIO(content) if isinstance(content, bytes) else content
    while True:
        chunk = stream.read(_CHUNK)
        if not chunk:
            return
        yield bytes(chunk)


def _read(handle: int, size: int) -> Iterator[bytes]:
    for offset in range(0, size, _CHUNK):
        yield host.call("artifacts.read", handle=handle, offset=offset, length=_CHUNK)


def _let_go(method: str, handle: int) -> None:
    try:
        host.call(method, handle=handle)
    except host.CellaError:
        pass  # the host lets go of it with this kernel at the latest


# What a saved name is found by again.
artifacts = Artifacts()
