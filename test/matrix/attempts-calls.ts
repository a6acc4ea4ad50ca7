/** Ways to ask the host for what it does not allow. */

import type { Attempt } from './attempts.ts';

export const callAttempts: readonly Attempt[] = [
  {
    name: 'attributes of the object and of its class',
    code: `
def through_c(name):
    import ctypes
    ctypes.pythonapi.PyObject_SetAttrString(ctypes.py_object(type(deps)), name.encode(), ctypes.py_object(True))
tried = []
for name in ("_allow_runtime", "allow_runtime", "allowRuntime", "_locked", "locked", "_wrapped", "_deps"):
    for way in (lambda: setattr(deps, name, True), lambda: object.__setattr__(deps, name, True), lambda: getattr(deps, name)):
        tried.append(word(way))
    setattr(type(deps), name, True)
    tried.append(word(lambda: through_c(name)))
both(deps)`,
  },
  {
    name: 'other objects of its class, and copies',
    code: `
import copy, pickle
class Free(type(deps)):
    allow_runtime = allowRuntime = True
    locked = False
sum((both(each) for each in (type(deps)(), Free(), copy.copy(deps), copy.deepcopy(deps), pickle.loads(pickle.dumps(deps)))), [])`,
  },
  {
    name: 'every object and every frame that can be found',
    code: `
names = ("allow_runtime", "allowRuntime", "_allow_runtime", "allowRuntimeDeps", "locked")
for thing in gc.get_objects():
    try:
        for name in names:
            if isinstance(thing, dict) and name in thing: thing[name] = True
            elif hasattr(thing, name): setattr(thing, name, True)
    except Exception: pass
frame = sys._getframe()
while frame is not None:
    for name in names:
        frame.f_globals[name] = True
    frame = frame.f_back
both(deps)`,
  },
  {
    name: 'calls to the host with parameters that nobody asked for',
    code: `
[word(lambda: host.call("deps.add", **params)) for params in (
    {"requirements": ["evil"]},
    {"requirements": ["evil"], "allowRuntime": True},
    {"requirements": ["evil"], "allowRuntimeDeps": True, "locked": False},
    {"requirements": ["evil"], "__proto__": {"allowRuntime": True}},
    {"requirements": ["evil"], "constructor": {"prototype": {"allowRuntime": True}}},
    {"requirements": "evil"},
)] + [word(lambda: host.call("deps.remove", name="tiny-a", force=True)), word(lambda: host.call("deps.sync", requirements=["evil"]))]`,
  },
  {
    name: 'calls by other names',
    code: String.raw`
[word(lambda: host.call(name, requirements=["evil"])) for name in (
    "deps.install", "deps.add ", " deps.add", "Deps.add", "deps..add", "deps", ".add", "deps.#add", "deps.store.add",
    "deps.constructor", "deps.__proto__.add", "tools.deps.add", "artifacts.deps.add", "skills.../deps.add", "deps.add\0", "")]`,
  },
  {
    name: 'the kernel’s own connection, by its own means',
    code: `
board = host._connection
[word(lambda: board.call("deps.add", {"requirements": ["evil"]})), word(lambda: board.call("deps.remove", {"name": "tiny-a"}))]`,
  },
  {
    name: 'awaited calls',
    code: `
async def later():
    words = []
    for method, params in (("deps.add", {"requirements": ["evil"]}), ("deps.remove", {"name": "tiny-a"})):
        try:
            await host.call_async(method, **params)
            words.append("done")
        except Exception as error:
            words.append(error.code)
    return words
await later()`,
  },
  {
    name: 'calls from a thread',
    needs: 'threads',
    code: `
import threading
heard = []
thread = threading.Thread(target=lambda: heard.extend(both(deps)))
thread.start()
thread.join()
heard`,
  },
  {
    name: 'calls from a process that it has forked',
    needs: 'subprocesses',
    expects: /^NO_HOST$/,
    code: `
here, there = os.pipe()
child = os.fork()
if child == 0:
    os.write(there, repr(both(deps)).encode())
    os._exit(0)
os.waitpid(child, 0)
os.close(there)
eval(os.read(here, 1000))`,
  },
  {
    name: 'frames written to the kernel’s own descriptor',
    needs: 'subprocesses',
    code: `
board = host._connection
def forge(number, method, params):
    payload = marshal.dumps((method, params), 2)
    board._calling.add(number)
    os.write(board.fd, struct.pack("<IBI", len(payload), ord("c"), number) + payload)
    answer = marshal.loads(board._wait(number))
    board._calling.discard(number)
    return answer["error"][0] if "error" in answer else "done"
[forge(900001, "deps.add", {"requirements": ["evil"]}), forge(900002, "deps.remove", {"name": "tiny-a"}),
 forge(900003, "deps.add", {"requirements": ["evil"], "allowRuntime": True})]`,
  },
  {
    name: 'a proxy that lies to the code that calls it',
    expects: /^done$/,
    code: `
real = host.call
host.call = lambda method, **params: {"installed": params.get("requirements", []), "failed": [], "path": None}
lied = both(deps)
host.call = real
lied`,
  },
];
