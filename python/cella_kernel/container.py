"""Pid 1 of a container: builds the kernel that others are forked from, closes itself in further, and watches over them.

The engine has given it its user, its file tree, its network and its limits. It speaks to the host through a door.
"""

from __future__ import annotations

import gc
import json
import os
import signal
from typing import Any, Dict

from . import frames, kernel, supervisor
from .door import Door
from .frames import Channel
from .processes import silence
from .sandbox import launch, linux, seccomp
from .sandbox.cgroup import OwnGroup
from .sandbox.linux import LayerError


def main(options: Dict[str, Any]) -> None:
    """`options`: the folder of the door, modules to preload. Never returns. Whoever comes to the door is ready."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    failed = kernel.preload(options["preload"])
    kernel.build()
    # What is there is never looked through again. To look through it once would only make the first session wait.
    gc.freeze()
    gc.enable()
    door = Door(options["folder"])
    channel = Channel(door.enter())
    try:
        silence()
        spec = _opening(channel)["policy"]
        if failed:
            raise LayerError("preload", "%(name)s could not be imported: %(reason)s" % failed[0])
        # Without a group, as some engines of a user's own are, each process is limited by itself, as in a sandbox.
        group = OwnGroup.limiting(spec["limits"]["memoryBytes"])
        _close_in(spec, group is None)
        pid_one = supervisor.Supervisor(channel, group, alone=True, door=door)
        pid_one.settle(spec, launch.Confinement(None, killed_first=True))
        channel.send(frames.OPENED, 0, json.dumps({"pid": os.getpid()}).encode())
        pid_one.serve()
    except BaseException as error:
        supervisor.say_why(channel, error)
    finally:
        os._exit(71)


def _opening(channel: Channel) -> Dict[str, Any]:
    """The first frame from the host. Where it lets go instead, there is nothing to do here."""
    frame = channel.take()
    while frame is None:
        if not channel.fill():
            os._exit(0)
        frame = channel.take()
    if frame[0] != frames.OPEN:
        raise LayerError("template", "a connection must begin with OPEN")
    return dict(json.loads(frame[2]))


def _close_in(spec: Dict[str, Any], alone: bool) -> None:
    if os.getuid() != spec["uid"] or os.getgid() != spec["gid"]:
        raise LayerError("uid", "the container runs as %d:%d" % (os.getuid(), os.getgid()))
    for folder in spec["folders"]:
        facts = os.stat(folder["path"])
        if (str(facts.st_dev), str(facts.st_ino)) != (folder["id"]["device"], folder["id"]["inode"]):
            raise LayerError("workspace", "%s is another folder than the session was made with" % folder["path"])
    linux.drop_bounding_set()
    linux.drop_capabilities()
    launch.settle(spec["limits"], alone, seccomp.program())
