"""Builds the kernel once, for the image of its memory, and serves it in every worker that starts from that image."""

from __future__ import annotations

import gc
import importlib
import os
import pkgutil
import signal
import sys
import traceback
from typing import Any, Dict, List

from ..kernel import kernel
from ..protocol import EXIT_FAILED, EXIT_OUT_OF_MEMORY
from . import shims
from .kernel import PyodideKernel

# Of the package: what only processes need, and what is run, not imported.
_NOT_HERE = (
    ".__main__",
    ".pyodide.entry",
    ".sandbox.",
    ".supervisor",
    ".files",
)

not_preloaded: List[Dict[str, str]] = []


def build(preload: List[str]) -> None:
    """All that is imported here is in the memory image: no file of the kernel is needed later."""
    package = sys.modules["cella_kernel"]
    for found in pkgutil.walk_packages(package.__path__, "cella_kernel."):
        if not any(part in found.name for part in _NOT_HERE):
            importlib.import_module(found.name)
    not_preloaded.extend(kernel.preload(preload))
    the_kernel = kernel.the_kernel = PyodideKernel()
    the_kernel.install()
    the_kernel.warm_up()
    gc.collect()
    gc.freeze()


def serve(env: Dict[str, str], cwd: str) -> None:
    """Never returns."""
    shims.install_sleep()
    the_kernel: Any = kernel.the_kernel
    os.environ.clear()
    os.environ.update(env)
    os.umask(0o022)
    os.chdir(cwd)
    sys.argv[:] = [""]
    sys.path[:] = [path for path in sys.path if path]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    the_kernel.adopt()
    shims.block_host_access()
    try:
        the_kernel.serve()
    except MemoryError:
        os._exit(EXIT_OUT_OF_MEMORY)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(EXIT_FAILED)
