"""The worker runs this text. Mode `build` creates the kernel for the memory image, mode `serve` runs it.

The worker sets the globals `settings` (JSON) and `folder` (the folder of the kernel's sources).
"""

import json
import runpy
import sys

options = json.loads(settings)  # noqa: F821
if options["mode"] == "build":
    sys.argv[:] = ["", "pyodide", json.dumps({"preload": options["preload"]})]
    runpy.run_path(folder, run_name="__main__")  # noqa: F821
main = sys.modules["cella_kernel.pyodide.main"]
main.serve(options["env"], options["cwd"]) if options["mode"] == "serve" else json.dumps(main.not_preloaded)
