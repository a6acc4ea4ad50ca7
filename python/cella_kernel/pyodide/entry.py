"""What the worker runs: `build` makes the kernel that the memory image holds, `serve` runs it. Given: `settings`, `place`."""

import json
import runpy
import sys

told = json.loads(settings)  # noqa: F821
if told["mode"] == "build":
    sys.argv[:] = ["", "pyodide", json.dumps({"preload": told["preload"]})]
    runpy.run_path(place, run_name="__main__")  # noqa: F821
main = sys.modules["cella_kernel.pyodide.main"]
main.serve(told["env"], told["cwd"]) if told["mode"] == "serve" else json.dumps(main.not_preloaded)
