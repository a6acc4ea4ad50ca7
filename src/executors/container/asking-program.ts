/** What the Python of an image is given to run: it tells about itself, and compiles the kernel's code for itself. */

import { TAG_PROGRAM } from '../../interpreter/find-python.ts';

/** The line that begins with it is the answer; anything else is whoever else writes there. */
export const MARK = 'cella-image:';

/** Runs on any Python 3, so that one that is too old can be told by its version. */
export const ASKING_PROGRAM = `
import json, os, sys
facts = {"version": list(sys.version_info[:3]), "executable": sys.executable, "path": os.environ.get("PATH", "")}
${TAG_PROGRAM}
def libc_of():
    if not musl:
        name, _, version = os.confstr("CS_GNU_LIBC_VERSION").partition(" ")
        return {"name": name, "version": [int(part) for part in version.split(".")[:2]]}
    import glob, re, subprocess
    words = ""
    for loader in glob.glob("/lib/ld-musl-*.so.1"):
        words = subprocess.run([loader], stderr=subprocess.PIPE).stderr.decode("utf-8", "replace")
    found = re.search(r"Version (\\d+)\\.(\\d+)", words)
    # The oldest that wheels are made for.
    return {"name": "musl", "version": [int(part) for part in found.groups()] if found else [1, 1]}

def compiled(root):
    import base64, importlib.util, marshal
    found = {}
    for folder, _, names in os.walk(root):
        for name in sorted(names):
            if not name.endswith(".py"):
                continue
            path = os.path.join(folder, name)
            with open(path, "rb") as file:
                source = file.read()
            code = compile(source, path, "exec", dont_inherit=True)
            # The code goes with this very source: nothing needs to be compared when it is loaded.
            header = importlib.util.MAGIC_NUMBER + b"\\1\\0\\0\\0" + importlib.util.source_hash(source)
            data = header + marshal.dumps(code)
            at = os.path.relpath(importlib.util.cache_from_source(path), root)
            found[os.path.relpath(path, root)] = {"at": at, "code": base64.b64encode(data).decode()}
    return found

if sys.version_info >= (3, 9):
    facts.update(tag=tag, machine=machine, libc=libc_of(), compiled=compiled(sys.argv[1]))
sys.stdout.write("\\n${MARK}" + json.dumps(facts) + "\\n")
`;
