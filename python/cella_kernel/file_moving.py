"""Renames without replacing: fails with EEXIST if the name is taken."""

from __future__ import annotations

import ctypes
import errno
import os
import stat

from cella_kernel.sandbox import linux

_NO_REPLACE = 1


def rename_to_free(source: int, name: str, target: int, new: str) -> None:
    """In one step where the file system can do that: code may take the name at any moment."""
    result = linux.syscall(
        "renameat2",
        ctypes.c_int(source),
        os.fsencode(name),
        ctypes.c_int(target),
        os.fsencode(new),
        ctypes.c_uint(_NO_REPLACE),
    )
    if result == 0:
        return
    code = ctypes.get_errno()
    # EINVAL is also said of a folder that is moved into itself, and is said again then.
    if code not in (errno.EINVAL, errno.ENOSYS):
        raise OSError(code, os.strerror(code), new)
    if stat.S_ISDIR(os.stat(name, dir_fd=source, follow_symlinks=False).st_mode):
        _rename_folder(source, name, target, new)
        return
    os.link(name, new, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)
    try:
        os.unlink(name, dir_fd=source)
    except OSError:
        try:
            os.unlink(new, dir_fd=target)
        except OSError:
            pass  # the first failure is the one to tell
        raise


def _rename_folder(source: int, name: str, target: int, new: str) -> None:
    """An empty folder takes the name, and only an empty folder can be replaced by another."""
    os.mkdir(new, dir_fd=target)
    try:
        os.rename(name, new, src_dir_fd=source, dst_dir_fd=target)
    except OSError:
        try:
            os.rmdir(new, dir_fd=target)
        except OSError:
            pass  # something else has the name by now
        raise
