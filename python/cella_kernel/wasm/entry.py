"""What the worker runs: `build` makes the kernel that the snapshot holds, `serve` runs it. Given: `settings`, `place`."""

import json
import runpy
import sys

told = json.loads(settings)  # noqa: F821
if told["mode"] == "build":
    sys.argv[:] = ["", "wasm", json.dumps({"preload": told["preload"]})]
    runpy.run_path(place, run_name="__main__")  # noqa: F821
life = sys.modules["cella_kernel.wasm.life"]
life.serve(told["env"], told["cwd"]) if told["mode"] == "serve" else json.dumps(life.not_preloaded)
