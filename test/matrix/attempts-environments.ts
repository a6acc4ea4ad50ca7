/** Ways around the host: files, variables, installers, servers and bridges that code may find. */

import type { Attempt } from './attempts.ts';

/** What the system says of what is not there, or not to be changed. */
const SYSTEM =
  /^(OSError|PermissionError|FileNotFoundError|ConnectionRefusedError|TimeoutError|BlockingIOError|Error)$/;

export const environmentAttempts: readonly Attempt[] = [
  {
    name: 'variables of its environment',
    code: `
for name in ("CELLA_ALLOW_RUNTIME_DEPS", "CELLA_NO_RUNTIME_DEPS", "allowRuntimeDeps", "NO_RUNTIME_DEPS"):
    os.environ[name] = "1" if "NO" not in name else "0"
os.environ.update(PIP_INDEX_URL=OTHER, PIP_EXTRA_INDEX_URL=OTHER, UV_INDEX_URL=OTHER, PIP_TARGET=FOLDER, PIP_NO_INDEX="0")
both(deps)`,
  },
  {
    name: 'files that installers read',
    code: String.raw`
words = "[global]\nindex-url = %s\nextra-index-url = %s\n[install]\ntarget = %s\n" % (OTHER, OTHER, FOLDER)
for place in (os.path.expanduser("~"), os.getcwd(), "/tmp"):
    for name in ("pip.conf", ".pip/pip.conf", ".config/pip/pip.conf", "uv.toml", "requirements.txt", "setup.py"):
        path = pathlib.Path(place, name)
        word(lambda: (path.parent.mkdir(parents=True, exist_ok=True), path.write_text(words)))
both(deps)`,
  },
  {
    name: 'writing into the package folder',
    expects: SYSTEM,
    code: String.raw`
inside = os.path.join(FOLDER, "evil.py")
above = os.path.join(os.path.dirname(FOLDER), "evil.py")
theirs = tiny_a.__file__
def chmod_and_write():
    for path in (FOLDER, os.path.dirname(theirs), theirs):
        try: os.chmod(path, 0o777)
        except OSError: pass
    with open(theirs, "a") as file: file.write("X = 666\n")
[word(work) for work in (
    lambda: open(inside, "w").close(),
    lambda: open(above, "w").close(),
    lambda: open(theirs, "a").close(),
    lambda: open(theirs, "r+").write("X = 666"),
    lambda: os.truncate(theirs, 0),
    lambda: os.remove(theirs),
    lambda: os.rename(theirs, theirs + ".gone"),
    lambda: os.rename(FOLDER, FOLDER + ".gone"),
    lambda: os.mkdir(os.path.join(FOLDER, "evil")),
    lambda: os.symlink("/tmp", os.path.join(FOLDER, "evil")),
    lambda: getattr(os, "link", os.symlink)(theirs, os.path.join(FOLDER, "evil.py")),
    lambda: shutil.rmtree(FOLDER),
    lambda: shutil.rmtree(os.path.dirname(theirs)),
    chmod_and_write,
)]`,
  },
  {
    name: 'pip, told to install into the package folder',
    needs: 'subprocesses',
    expects: /^(OSError|RuntimeError|CalledProcessError)$/,
    code: String.raw`
import subprocess, zipfile
wheel = os.path.join(os.getcwd(), "evil-6.6.6-py3-none-any.whl")
with zipfile.ZipFile(wheel, "w") as zipped:
    zipped.writestr("evil.py", "VERSION = 'own'\n")
    zipped.writestr("evil-6.6.6.dist-info/METADATA", "Metadata-Version: 2.1\nName: evil\nVersion: 6.6.6\n")
    zipped.writestr("evil-6.6.6.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    zipped.writestr("evil-6.6.6.dist-info/RECORD", "")
def pip(*words):
    done = subprocess.run([sys.executable, "-m", "pip", "install", "--no-cache-dir", "--retries", "0", *words], capture_output=True, text=True)
    if done.returncode != 0: raise RuntimeError(done.stderr[-200:])
def unpack():
    with zipfile.ZipFile(wheel) as zipped: zipped.extractall(FOLDER)
[word(lambda: pip("--target", FOLDER, "--no-index", wheel)), word(lambda: pip("--target", FOLDER, "--index-url", INDEX, "evil")),
 word(lambda: pip("--index-url", INDEX, "evil")), word(unpack), word(lambda: subprocess.run(["sh", "-c", 'cp "$0" "$1"', wheel, FOLDER], check=True))]`,
  },
  {
    name: 'the storage itself, by its address',
    expects: SYSTEM,
    code: String.raw`
def connect():
    address = STORAGE.split("//")[1].split("/")[0].split(":")
    with socket.create_connection((address[0], int(address[1])), timeout=2) as link:
        link.sendall(b"PING\r\n")
        if b"PONG" not in link.recv(100): raise OSError("no answer")
def walk():
    found = [os.path.join(place, name) for place, _, names in os.walk(STORAGE) for name in names]
    if not found: raise FileNotFoundError(STORAGE)
[word(connect)] if "://" in STORAGE else [word(walk), word(lambda: open(os.path.join(STORAGE, "evil"), "w").close()), word(lambda: os.listdir(STORAGE))]`,
  },
  {
    name: 'artifacts with names that lead elsewhere',
    expects: /^INVALID_NAME$/,
    code: String.raw`
[word(lambda: artifacts.save(name, "evil")) for name in (
    "../deps/evil", "../../packages/evil.py", "/etc/evil", "deps/../../evil", "..", "a\0b", FOLDER + "/evil.py")]`,
  },
  {
    name: 'the bridge to the process that WebAssembly runs in',
    expects: /Error$/,
    code: `
def run_js():
    from pyodide.code import run_js
    run_js("process.mainModule || globalThis.process.exit")
def js_process():
    import js
    js.process.getBuiltinModule("node:fs").writeFileSync(REAL + "/evil.py", "")
def js_constructor():
    import js
    js.Object.constructor("return process")().getBuiltinModule("node:fs").writeFileSync(REAL + "/evil.py", "")
def file_system():
    import pyodide_js
    pyodide_js.FS.writeFile(FOLDER + "/evil.py", "")
def load_package():
    import pyodide_js
    pyodide_js.loadPackage("evil")
def micropip():
    import micropip
    micropip.install("evil")
[word(way) for way in (run_js, js_process, js_constructor, file_system, load_package, micropip, lambda: os.system("touch " + REAL + "/evil.py") and None or os.stat(FOLDER + "/evil.py"))]`,
  },
];
