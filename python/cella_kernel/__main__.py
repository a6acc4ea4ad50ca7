"""Entry: `python -I cella_kernel MODE JSON`. MODE is `template` (starts kernels), `container` (is pid 1 of a container), `detect`
(reports isolation layers), `files` (reads and writes files for a server that runs as root) or `pyodide` (builds the memory
image of a kernel in WebAssembly).
"""

from __future__ import annotations

import builtins
import importlib.machinery
import importlib.util
import json
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


class _Loader(importlib.machinery.SourceFileLoader):
    """Gives the kernel's modules their own copy of the builtins, so that code that changes a builtin cannot break them."""

    own = dict(vars(builtins))

    def exec_module(self, module: object) -> None:
        module.__dict__["__builtins__"] = self.own
        super().exec_module(module)  # type: ignore[arg-type]


class _Finder:
    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> object:
        head, _, tail = name.partition(".")
        if head != "cella_kernel":
            return None
        base = os.path.join(_HERE, *tail.split(".")) if tail else _HERE
        package = os.path.isdir(base)
        file = os.path.join(base, "__init__.py") if package else base + ".py"
        if not os.path.isfile(file):
            return None
        search = [base] if package else None
        return importlib.util.spec_from_file_location(name, file, loader=_Loader(name, file), submodule_search_locations=search)


def main() -> None:
    mode, options = sys.argv[1], json.loads(sys.argv[2])
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != _HERE]
    sys.argv[:] = [""]
    sys.meta_path.insert(0, _Finder)  # type: ignore[arg-type]
    if mode == "template":
        from cella_kernel.supervisor import template

        template.main(options)
    elif mode == "container":
        import gc

        gc.disable()
        from cella_kernel.supervisor import container

        container.main(options)
    elif mode == "detect":
        from cella_kernel.sandbox import detect

        detect.main(options)
    elif mode == "files":
        from cella_kernel.files import broker

        broker.main(options)
    elif mode == "pyodide":
        from cella_kernel.pyodide import main as pyodide_main

        pyodide_main.build(**options)
    else:
        raise SystemExit("unknown mode %r: use template, container, detect, files or pyodide" % mode)


main()
