/** Calls out of the code: from anywhere in it, many at once, given up, and decided by the host alone. */

import { describe, expect, it } from 'vitest';
import { runUntilReady } from '../../support/kernels/session.ts';
import { lacks } from '../../support/kernels/unsupported.ts';
import { errorOf, openWith, pyValue } from '../../support/namespaces/namespaces.ts';
import type { Place } from './namespaces.ts';

const SLEEP =
  'name: nap\ndescription: Sleeps\ncommand: sleep\nschema:\n  positional:\n    - name: seconds\n      type: number\n';

/** Ends when eight of it are there. */
const MEET = `name: meet
description: Waits for the others
command: [sh, -c, 'touch "here.$1"; until [ "$(ls here.* | wc -l)" -ge 8 ]; do sleep 0.02; done; echo met', meet]
timeout: 40
schema:
  positional:
    - { name: number, type: integer }
`;

const LONG = { timeout: 20_000 };

export function namespaceCalls(place: Place): void {
  describe('calls to the host', () => {
    it('work from plain code, tasks, threads and skills, in one cell', async () => {
      const { session } = await openWith(place);
      await pyValue(session, 'artifacts.save("n", 20)');
      await pyValue(session, 'skills.create("half", "async def run():\\n    return artifacts.load(\'n\') // 2\\n")');
      const { threads } = session.capabilities;
      const code = `
import asyncio, threading
out = []
async def task():
    return skills.half() + await skills.half()
work = lambda: out.append(artifacts.load("n"))
${threads ? 'thread = threading.Thread(target=work)\nthread.start()' : 'work()'}
both = await asyncio.gather(task(), task())
${threads ? 'thread.join()' : ''}
[artifacts.load("n"), both, out]`;
      expect(await pyValue(session, code)).toEqual([20, [20, 20], [20]]);
    });

    it('get their replies, whichever thread reads them', async () => {
      const { session } = await openWith(place, { timeoutMs: 20_000 });
      if (await lacks(session, 'threads')) return;
      const code = `
import asyncio, sys, threading
sys.setswitchinterval(1e-6)
artifacts.save("n", 1)
out = []
async def ask():
    return [await tools.none.call_async() for _ in range(20)]
def work():
    for _ in range(20): out.append(artifacts.load("n"))
for _ in range(5):
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads: thread.start()
    await asyncio.gather(*[ask() for _ in range(4)], return_exceptions=True)
    for thread in threads: thread.join()
len(out)`;
      expect(await pyValue(session, code)).toBe(400);
    });

    it('run concurrently if they are awaited together', async () => {
      const { session, storage } = await openWith(place);
      if (await lacks(session, 'subprocesses')) return;
      await storage.tools.put('meet', MEET);
      // Each of them ends only when all have begun: one after the other, the first would wait until its time is over.
      const code = `
import asyncio
await asyncio.gather(*[tools.meet.call_async(n) for n in range(8)])`;
      expect(await pyValue(session, code)).toEqual(Array.from({ length: 8 }, () => 'met\n'));
    });

    it('wait if there are more than the host accepts', async () => {
      const { session } = await openWith(place);
      const code = `
import asyncio
awaited = await asyncio.gather(*[tools.none.call_async() for _ in range(300)], return_exceptions=True)
[len(awaited), {type(error).__name__ for error in awaited} == {"CellaLookupError"}]`;
      expect(await pyValue(session, code)).toEqual([300, true]);
    });

    it('continue while no cell runs', async () => {
      const { session } = await openWith(place);
      const code = `
import asyncio
async def later():
    await asyncio.sleep(0.05)
    for n in range(20):
        artifacts.save("later", n)
    done.append(await asyncio.gather(tools.none.call_async(), return_exceptions=True))
done = []
task = asyncio.get_running_loop().create_task(later())
await asyncio.sleep(0)`;
      await pyValue(session, code);
      for (;;) {
        const [info] = await session.artifacts.list();
        if (info?.size === 2) break;
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
      expect(await pyValue(session, 'await task\nlen(done), artifacts.load("later")')).toEqual([1, 19]);
    });

    it('stop their work when the cell is interrupted', async () => {
      const { session, storage } = await openWith(place);
      if (await lacks(session, 'subprocesses')) return;
      await storage.tools.put('nap', SLEEP);
      for (const call of ['tools.nap(600)', 'await tools.nap(600)']) {
        const { result } = await runUntilReady(session, `print("ready", flush=True)\n${call}`);
        await session.interrupt();
        expect(await result).toMatchObject({ status: 'interrupted' });
      }
      // Whoever waits for the sandbox's programs sees them gone.
      await expect
        .poll(() => pyValue(session, 'import subprocess; subprocess.run(["pgrep", "sleep"]).returncode'), LONG)
        .toBe(1);
    });

    it('end with the kernel that made them', async () => {
      const { session, storage } = await openWith(place);
      if (await lacks(session, 'threads')) return;
      await storage.tools.put('nap', SLEEP);
      const code =
        'import os, threading\nthreading.Timer(0.2, lambda: os.kill(os.getpid(), 9)).start()\ntools.nap(600)';
      expect(await session.run(code)).toMatchObject({ status: 'died' });
      await expect
        .poll(() => pyValue(session, 'import subprocess; subprocess.run(["pgrep", "sleep"]).returncode'), LONG)
        .toBe(1);
    });

    it('are refused with an exception that code can catch by its kind', async () => {
      const { session } = await openWith(place);
      const kinds = `
def kind(work):
    try:
        work()
    except (ValueError, LookupError, PermissionError) as error:
        return [type(error).__name__, error.code]
[kind(lambda: artifacts.load("none")), kind(lambda: artifacts.save("../x", 1)), kind(lambda: deps.add("-r x"))]`;
      expect(await pyValue(session, kinds)).toEqual([
        ['CellaLookupError', 'ARTIFACT_NOT_FOUND'],
        ['CellaValueError', 'INVALID_NAME'],
        ['CellaValueError', 'DEPS_INVALID'],
      ]);
    });

    it('show only lines of the cell in their tracebacks', async () => {
      const { session } = await openWith(place);
      const { error } = await session.run('artifacts.load("none")');
      // Some versions of Python mark the place in the line.
      expect(error?.traceback.replace(/^[ ~^]+\n/gm, '')).toBe(
        'Traceback (most recent call last):\n  File "<cell 1>", line 1, in <module>\n    artifacts.load("none")\n' +
          'CellaLookupError: There is no artifact named "none".\n',
      );
    });
  });

  describe('the four namespaces', () => {
    it('exist after a reset, a rollback and a restart, and after the code has deleted them', async () => {
      const { session } = await openWith(place);
      const all = '[type(one).__name__ for one in (tools, skills, artifacts, deps)]';
      const names = ['Tools', 'Skills', 'Artifacts', 'Deps'];
      await session.run('import builtins; del builtins.tools, builtins.deps; skills = 1');
      await session.run('del skills');
      expect(await pyValue(session, all)).toEqual(names);
      await session.run('x = 1', { transaction: 'rollback_always' });
      await session.reset();
      expect(await pyValue(session, all)).toEqual(names);
      await session.restart();
      expect(await pyValue(session, `${all} + [artifacts.list()]`)).toEqual([...names, []]);
    });

    it('are saved with the variables that contain them', async () => {
      const { session } = await openWith(place, { persist: true });
      await pyValue(session, 'kept = [tools, skills, artifacts, deps, tools.grep.first, skills.double]');
      await session.hibernate();
      const { value, resumed } = await session.run('[kept[0] is tools, kept[3] is deps, repr(kept[4]), repr(kept[5])]');
      expect(resumed?.lost).toEqual([]);
      expect(value).toEqual([
        true,
        true,
        expect.stringContaining('tools.grep.first'),
        expect.stringContaining('skills.double'),
      ]);
    });

    it('fail in a task that waited during a rollback, and work again', async () => {
      const { session, storage } = await openWith(place);
      if (await lacks(session, 'subprocesses')) return;
      await storage.tools.put('nap', SLEEP);
      const code = `
import asyncio
async def waits():
    try:
        await tools.nap(600)
    except RuntimeError as error:
        return error.code
task = asyncio.get_running_loop().create_task(waits())
await asyncio.sleep(0.1)`;
      await pyValue(session, code);
      await session.run('x = 1', { transaction: 'rollback_always' });
      expect(await pyValue(session, 'await task')).toBe('KERNEL_DIED');
      expect(await pyValue(session, 'artifacts.exists("x")')).toBe(false);
    });

    it('have help texts', async () => {
      const { session } = await openWith(place);
      const { stdout } = await session.run('help(tools); help(skills); help(artifacts.save); help(deps.add)');
      // Some versions of Python write a long list of parameters on lines of their own.
      const text = stdout.replace(/\(\s+/g, '(');
      for (const words of ['tools.search(', 'skills.create(', 'save(name', 'add(*requirements']) {
        expect(text).toContain(words);
      }
    });

    it('are not listed among the code’s variables', async () => {
      const { session } = await openWith(place);
      expect(await session.variables()).toEqual([]);
    });

    it('contain nothing that code could misuse', async () => {
      const { session, storage } = await openWith(place, { allowRuntimeDeps: false });
      await storage.deps.add('kept');
      const tricks = [
        'deps._wrapped',
        'deps._allow_runtime',
        'deps.allow_runtime',
        'object.__getattribute__(deps, "_allow_runtime")',
        'deps.__dict__',
        'deps._allow_runtime = True',
        'tools._store',
        'artifacts._path',
      ];
      for (const trick of tricks) expect(await errorOf(session, trick)).toMatchObject({ name: 'AttributeError' });
      // The whole machinery is in the hands of the code, and the host says no all the same.
      const deep = `
import gc, sys
from cella_kernel.namespaces import host
for thing in gc.get_objects():
    try:
        for name in ("allow_runtime", "allowRuntime", "_allow_runtime", "locked"):
            if hasattr(thing, name): setattr(thing, name, True)
    except Exception: pass
# Every frame that led here, and the classes of the proxies themselves.
frame, names = sys._getframe(), set()
while frame is not None:
    names.update(name for place in (frame.f_locals, frame.f_globals) for name in place)
    frame = frame.f_back
try:
    import ctypes
    ctypes.pythonapi.PyObject_SetAttrString(ctypes.py_object(type(deps)), b"_allow_runtime", ctypes.py_object(True))
except ImportError: pass
words = []
for params in ({"requirements": ["evil"]}, {"requirements": ["evil"], "allowRuntime": True}):
    try: words.append(host.call("deps.add", **params))
    except Exception as error: words.append(error.code)
try: host.call("deps.remove", name="kept")
except Exception as error: words.append(error.code)
[words, deps.list(), [name for name in names if "allow" in name.lower() or "storage" in name.lower()]]`;
      const [words, list, telling] = (await pyValue(session, deep)) as [string[], string[], string[]];
      expect(words).toEqual(['DEPS_LOCKED', 'INVALID_OPTIONS', 'DEPS_LOCKED']);
      expect(telling).toEqual([]);
      expect(list).toEqual(['kept']);
      expect(await storage.deps.list()).toEqual(['kept']);
      // No address, key or path of the storage is anywhere in the memory of the kernel.
      const config = JSON.stringify(storage.toBootstrapConfig());
      const address = storage.toBootstrapConfig();
      const secret = address.type === 'file' ? address.path : address.url;
      expect(config).toContain(secret);
      const code = `
import re
needle = ${JSON.stringify([...secret].join(' '))}.replace(" ", "")
found = [text for text in gc.get_objects() if isinstance(text, dict) and any(isinstance(v, str) and needle in v and k not in ("needle", "found") for k, v in list(text.items()))]
[len([1 for text in found if text is not globals()])]`;
      expect(await pyValue(session, code)).toEqual([0]);
    });

    it('refuse a call that does not exist, and continue', async () => {
      const { session } = await openWith(place);
      const code = `
from cella_kernel.namespaces import host
words = []
for name in ("nothing", "deps.constructor", "tools.__proto__", "artifacts.toString", ""):
    try: host.call(name)
    except Exception as error: words.append(type(error).__name__)
words`;
      expect(await pyValue(session, code)).toEqual(new Array(5).fill('CellaValueError'));
    });

    it('report a wrong parameter clearly', async () => {
      const { session } = await openWith(place);
      expect(await errorOf(session, 'artifacts.load(5)')).toMatchObject({ name: 'CellaValueError' });
      expect(await errorOf(session, 'tools.search(1)')).toMatchObject({ name: 'CellaValueError' });
      expect(await errorOf(session, 'skills.create("a", 5)')).toMatchObject({ name: 'CellaValueError' });
    });
  });
}
