/** Durable checkpoints: names in storage, for another session, another process, and after whatever became of the disk. */

import { randomFillSync } from 'node:crypto';
import { readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { Session } from '../../../src/index.ts';
import { type Open, scratchFolder } from '../../support/kernels/session.ts';
import { checkpointFolder, evaluate, locate, readManifest, reasons } from '../../support/kernels/state.ts';
import { RemoteHost } from '../../support/kernels/state-hosts.ts';
import { lacks, lacksFor } from '../../support/kernels/unsupported.ts';

/** `short`: what differs from executor to executor. */
export function durableContract(open: Open, short = false): void {
  describe('a durable checkpoint', () => {
    values(open);
    elsewhere(open);
    if (!short) keeping(open);
  });
  if (short) return;
  describe('a durable checkpoint that is damaged on disk', () => damage(open));
}

/** What can be saved: how it is made, and a look that tells whether it is what it was. */
const saveable: [name: string, make: string, look: string][] = [
  ['plain values', 'v = [1, 2.5, "é😀", None, True, b"\\x00\\xff", 10 ** 30, float("inf"), 1j]', 'v'],
  ['containers in containers', 'v = {"a": [(1, {2, 3})], ("k",): {4: frozenset([5])}}', '[v["a"][0][0], v[("k",)][4]]'],
  [
    'a function',
    'def f(a, b=2, *c, d=4, **e):\n    """Doc."""\n    return [a, b, c, d, e]',
    '[f(1, 9, 8, d=7, z=6), f.__doc__]',
  ],
  [
    'functions that call each other',
    'def even(n): return n == 0 or odd(n - 1)\ndef odd(n): return n > 0 and even(n - 1)',
    '[even(10), odd(10)]',
  ],
  ['a function and the name it reads', 'rate = 3\ndef f(n): return n * rate', 'rate = 5\nf(2)'],
  [
    'a class, with methods and instances',
    'class Base:\n    kind = "base"\n    def __init__(self, n): self.n = n\n    def double(self): return self.n * 2\nclass Child(Base):\n    @property\n    def triple(self): return self.n * 3\n    @classmethod\n    def make(cls): return cls(4)\nc = Child(5); c.extra = [1]',
    '[c.double(), c.triple, c.extra, Child.make().n, isinstance(c, Base), type(c) is Child, Child.kind]',
  ],
  [
    'a closure, with what it has counted',
    'def counter():\n    n = 0\n    def add():\n        nonlocal n\n        n += 1\n        return n\n    return add\nadd = counter(); add(); add()',
    'add()',
  ],
  ['lambdas', 'double = lambda n: n * 2\ntable = {"add": lambda a, b: a + b}', '[double(4), table["add"](1, 2)]'],
  [
    'a partial and a bound method',
    'import functools\np = functools.partial(pow, 2)\nm = "a-b".split',
    '[p(5), m("-")]',
  ],
  [
    'imports, under any name',
    'import json, os.path as p\nfrom collections import OrderedDict as O',
    '[json.dumps(1), p.join("a", "b"), O.__name__]',
  ],
  [
    'a numpy array',
    'import numpy as np\na = np.arange(6.0).reshape(2, 3)\nb = a[0]',
    '[a.tolist(), a.dtype.name, b.tolist()]',
  ],
  [
    'a pandas frame',
    'import pandas as pd\nf = pd.DataFrame({"a": [1, 2], "b": ["x", None]}, index=["r", "s"])\nf["c"] = pd.Categorical(["u", "v"])',
    '[f["a"].tolist(), f.loc["r", "b"], list(f.index), str(f["c"].dtype), f.shape]',
  ],
  ['a list that holds itself', 'a = [1]; a.append(a)', '[a[0], a[1] is a, len(a)]'],
  ['objects in a circle', 'class N: pass\na = N(); b = N(); a.b = b; b.a = a', '[a.b is b, b.a is a]'],
  [
    'what two names share',
    'shared = [1]\nx = {"s": shared}\ny = (shared, x)',
    'shared.append(2)\n[x["s"] is shared, y[0] is shared, y[1] is x, x["s"]]',
  ],
  [
    'dates, decimals, paths and enums',
    'import datetime, decimal, enum, pathlib\nclass E(enum.Enum): A = 1\nv = [datetime.date(2024, 2, 29), decimal.Decimal("1.10"), pathlib.Path("/a") / "b"]\ne = E.A',
    '[str(v[0]), str(v[1]), str(v[2]), e is E.A]',
  ],
  [
    'a dataclass and a named tuple',
    'import dataclasses, typing\n@dataclasses.dataclass\nclass D:\n    n: int\n    l: list = dataclasses.field(default_factory=list)\nclass T(typing.NamedTuple):\n    a: int\nd = D(1); d.l.append(2); t = T(3)',
    '[d == D(1, [2]), t.a, t == T(3)]',
  ],
  [
    'a defaultdict, a deque and a Counter',
    'import collections\nd = collections.defaultdict(list); d["a"].append(1)\nq = collections.deque([1, 2], maxlen=2)\nc = collections.Counter("aab")',
    'd["b"].append(2); q.append(3)\n[dict(d), list(q), c["a"]]',
  ],
  ['a regular expression', 'import re\nr = re.compile("(a+)b", re.I)', 'r.match("AAB").group(1)'],
  [
    'random states',
    'import random, numpy\nrandom.seed(4); numpy.random.seed(4)\nrandom.random(); numpy.random.rand()',
    '[random.random(), float(numpy.random.rand())]',
  ],
  ['the working folder', 'import os\nos.makedirs("sub/deep", exist_ok=True); os.chdir("sub/deep")', 'os.getcwd()'],
  ['an async function', 'async def f(n): return n + 1', 'await f(1)'],
  ['a generator function', 'def g(n):\n    for i in range(n): yield i * i', 'list(g(4))'],
  [
    'a decorated function',
    'import functools\ndef twice(f):\n    @functools.wraps(f)\n    def run(*a): return f(f(*a))\n    return run\n@twice\ndef inc(n): return n + 1',
    '[inc(1), inc.__name__]',
  ],
];

/** What only cloudpickle can save: an interpreter in WebAssembly does not have it. */
const byCloudpickle: ReadonlySet<string> = new Set(['a closure, with what it has counted', 'lambdas']);

function values(open: Open): void {
  it.each(saveable)('restores %s', async (name, make, look) => {
    await using session = await open();
    if (await lacksFor(session, make, look)) return;
    expect((await session.run(make)).error?.traceback).toBeUndefined();
    const { lost, saved } = await session.checkpoint({ name: 'made', durable: true });
    if (!session.capabilities.subprocesses && byCloudpickle.has(name)) {
      expect(Object.values(reasons(lost)).join()).toContain('without cloudpickle');
      return;
    }
    expect(reasons(lost)).toEqual({});
    expect(saved).not.toHaveLength(0);
    const was = await evaluate(session, look);
    await session.reset();
    const restored = await session.restore('made');
    expect(reasons(restored.lost)).toEqual({});
    expect([...(restored.restored ?? [])].sort()).toEqual([...(saved ?? [])].sort());
    expect(await evaluate(session, look)).toEqual(was);
  });

  it('removes later variables, and reverts everything that a later cell changed in place', async () => {
    await using session = await open();
    await session.run('a = [1]; keep = {"k": 1}');
    await session.checkpoint({ name: 'base', durable: true });
    await session.run('a.append(2); keep["l"] = 2; late = 1; import wave');
    await session.restore('base');
    const code = 'import sys\n[a, keep, "late" in dir(), "wave" in dir()]';
    expect(await evaluate(session, code)).toEqual([[1], { k: 1 }, false, false]);
  });

  it('can be restored repeatedly', async () => {
    await using session = await open();
    await session.run('a = [1]');
    const { id } = await session.checkpoint({ durable: true });
    for (let round = 0; round < 4; round++) {
      await session.run('a.append(2)');
      expect((await session.restore(id)).restored).toEqual(['a']);
      expect(await evaluate(session, 'a')).toEqual([1]);
    }
  });

  it('lists objects that exist only in the process with the reason, and saves the rest', async () => {
    await using session = await open();
    const every: [name: string, make: string, words: string][] = [
      ['file', 'open("f", "w")', 'file'],
      ['sock', '__import__("socket").socket()', 'socket'],
      ['gen', '(n for n in range(3))', 'generator'],
      ['thread', '__import__("threading").Thread(target=int)', 'thread'],
      ['child', '__import__("subprocess").Popen(["true"])', 'subprocess'],
      ['db', '__import__("sqlite3").connect(":memory:")', 'database'],
      ['pool', '__import__("concurrent.futures").futures.ThreadPoolExecutor()', 'executor'],
      ['holder', '[1, open("g", "w")]', 'file'],
    ];
    const childless = await lacks(session, 'subprocesses');
    const live = every.filter(([name]) => !(childless && name === 'child'));
    await session.run(`good = [1]\n${live.map(([name, make]) => `${name} = ${make}`).join('\n')}`);
    const { saved, lost } = await session.checkpoint({ name: 'some', durable: true });
    expect(saved).toEqual(['good']);
    expect(Object.keys(reasons(lost)).sort()).toEqual(live.map(([name]) => name).sort());
    for (const [name, , words] of live) expect(reasons(lost)[name], name).toMatch(new RegExp(words, 'i'));
    const restored = await session.restore('some');
    expect(restored.restored).toEqual(['good']);
    expect(await evaluate(session, '[good, "file" in dir()]')).toEqual([[1], false]);
  });

  it('does not affect its kernel', async () => {
    await using session = await open();
    await session.run('import random\nrandom.seed(1)\na = [1]\ng = iter([1, 2])\nf = open("f", "w")\nnext(g)');
    const pid = await evaluate(session, 'import os; os.getpid()');
    await session.checkpoint({ durable: true });
    const code =
      'random.seed(1)\nx = random.random()\nrandom.seed(1)\n[x == random.random(), a, next(g), f.write("x"), os.getpid()]';
    expect(await evaluate(session, code)).toEqual([true, [1], 2, 1, pid]);
  });

  it('keeps the sources of cells for tracebacks', async () => {
    await using session = await open();
    await session.run('def f():\n    raise KeyError("a line of its own")');
    await session.checkpoint({ name: 'base', durable: true });
    await session.restart();
    await session.restore('base');
    expect((await session.run('f()')).error?.traceback).toContain('raise KeyError("a line of its own")');
  });
}

function elsewhere(open: Open): void {
  const make =
    'import math\nclass P:\n    def __init__(self, n): self.n = n\np = P(3)\ndef area(r): return math.pi * r * p.n\nnumbers = list(range(1000))';
  const look = '[p.n, round(area(1), 3), sum(numbers), type(p).__name__]';
  const value = [3, 9.425, 499500, 'P'];

  it('is found by another session of its agent key', async () => {
    const dataDir = await scratchFolder();
    const first = await open({ dataDir, agentKey: 'a' });
    await first.run(make);
    const { id } = await first.checkpoint({ name: 'made', durable: true });
    await first.run('del p, area; numbers.clear()');
    await first.close();
    await using second = await open({ dataDir, agentKey: 'a' });
    expect((await second.checkpoints()).find((one) => one.id === id)).toMatchObject({ name: 'made', kind: 'durable' });
    expect((await second.restore('made')).checkpoint.id).toBe(id);
    expect(await evaluate(second, look)).toEqual(value);
  });

  it('does not belong to another agent key', async () => {
    const dataDir = await scratchFolder();
    await using one = await open({ dataDir, agentKey: 'one' });
    await using two = await open({ dataDir, agentKey: 'two' });
    await one.run('x = 1');
    const { id } = await one.checkpoint({ name: 'made', durable: true });
    await expect(two.restore('made')).rejects.toMatchObject({ code: 'CHECKPOINT_NOT_FOUND' });
    await expect(two.restore(id)).rejects.toMatchObject({ code: 'CHECKPOINT_NOT_FOUND' });
    await expect(two.deleteCheckpoint(id)).rejects.toMatchObject({ code: 'CHECKPOINT_NOT_FOUND' });
  });

  it('is found by another process, even if that is killed and a third one follows', async () => {
    const dataDir = await scratchFolder();
    const first = await open({ dataDir });
    await first.run(make);
    await first.checkpoint({ name: 'made', durable: true });
    await first.close();
    for (const how of ['kill', 'end'] as const) {
      await using host = new RemoteHost();
      await host.open({ dataDir });
      await host.call('reset');
      const { restored } = (await host.call('restore', 'made')) as { restored: string[] };
      expect(restored).toEqual(expect.arrayContaining(['p', 'P', 'area', 'numbers', 'math']));
      expect((await host.run(look)).value).toEqual(value);
      await host[how]();
    }
  });
}

function keeping(open: Open): void {
  it('lists its contents', async () => {
    await using session = await open();
    await session.run('x = 1; f = open("f", "w")');
    const made = await session.checkpoint({ name: 'base', durable: true });
    expect(made).toMatchObject({
      name: 'base',
      kind: 'durable',
      automatic: false,
      execution: 1,
      saved: ['x'],
      lost: [{ name: 'f', reason: expect.stringContaining('file') }],
    });
    expect(made.bytes).toBeGreaterThan(0);
    expect(made.python).toMatch(/^3\.\d+\.\d+$/);
    expect(Math.abs(Date.now() - made.createdAt)).toBeLessThan(60_000);
    expect((await session.checkpoints()).find(({ id }) => id === made.id)).toEqual(made);
  });

  it('stays after reset, restart and hibernation, until it is deleted', async () => {
    await using session = await open();
    await session.run('x = 1');
    const { id } = await session.checkpoint({ name: 'base', durable: true });
    await session.reset();
    await session.restart();
    await session.run('x = 2');
    await session.hibernate();
    await session.restore('base');
    expect(await evaluate(session, 'x')).toBe(1);
    await session.deleteCheckpoint('base');
    expect((await session.checkpoints()).filter((one) => one.id === id)).toEqual([]);
    await expect(session.restore(id)).rejects.toMatchObject({ code: 'CHECKPOINT_NOT_FOUND' });
    await expect(session.deleteCheckpoint(id)).rejects.toMatchObject({ code: 'CHECKPOINT_NOT_FOUND' });
    expect(await evaluate(session, 'x')).toBe(1);
  });

  it('is not removed by automatic saves', async () => {
    await using session = await open();
    await session.run('x = 0');
    await session.checkpoint({ name: 'base', durable: true });
    for (let n = 1; n <= 5; n++) {
      await session.run(`x = ${n}`);
      await session.save();
    }
    const all = await session.checkpoints();
    expect(all.filter(({ automatic }) => automatic).length).toBeLessThanOrEqual(2);
    await session.restore('base');
    expect(await evaluate(session, 'x')).toBe(0);
  });

  it('with a used name: the newest wins, and the other is found by its id', async () => {
    await using session = await open();
    await session.run('x = 1');
    const first = await session.checkpoint({ name: 'base', durable: true });
    await session.run('x = 2');
    const second = await session.checkpoint({ name: 'base', durable: true });
    await session.run('x = 3');
    expect((await session.restore('base')).checkpoint.id).toBe(second.id);
    expect(await evaluate(session, 'x')).toBe(2);
    await session.restore(first.id);
    expect(await evaluate(session, 'x')).toBe(1);
  });

  it('is restored if the live one with its name is gone', async () => {
    await using session = await open();
    await session.run('x = 1');
    await session.checkpoint({ name: 'base', durable: true });
    await session.run('x = 2');
    await session.checkpoint({ name: 'base' });
    await session.run('x = 3');
    expect((await session.restore('base')).checkpoint.kind).toBe('live');
    expect(await evaluate(session, 'x')).toBe(2);
    await session.restart();
    expect((await session.restore('base')).checkpoint.kind).toBe('durable');
    expect(await evaluate(session, 'x')).toBe(1);
  });

  it('that does not exist is CHECKPOINT_NOT_FOUND, and nothing is lost', async () => {
    await using session = await open();
    await session.run('x = 1');
    await session.checkpoint({ name: 'base', durable: true });
    for (const which of ['nothing', '../base', '00000000-0000-4000-8000-000000000000']) {
      await expect(session.restore(which)).rejects.toMatchObject({ code: 'CHECKPOINT_NOT_FOUND' });
    }
    expect(await evaluate(session, 'x')).toBe(1);
  });

  it('cannot be created without storage, and says so', async () => {
    await using session = await open({ persist: false });
    await session.run('x = 1');
    await expect(session.checkpoint({ durable: true })).rejects.toMatchObject({ code: 'INVALID_OPTIONS' });
    expect(await evaluate(session, 'x')).toBe(1);
  });

  it('leaves out variables over the size limit, and says so', async () => {
    await using session = await open({ checkpointLimitMb: 1 });
    await session.run('import os\nlarge = os.urandom(3 << 20)\nsmall = [1, 2]');
    const { saved, lost, bytes } = await session.checkpoint({ name: 'some', durable: true });
    expect(saved).toEqual(expect.arrayContaining(['small', 'os']));
    expect(saved).not.toContain('large');
    expect(reasons(lost).large).toMatch(/size limit/);
    expect(bytes).toBeLessThanOrEqual(1 << 20);
    await session.restore('some');
    expect(await evaluate(session, '[small, "large" in dir()]')).toEqual([[1, 2], false]);
  });

  it('into which no variable fits is CHECKPOINT_TOO_LARGE, and leaves nothing behind', async () => {
    await using session = await open({ checkpointLimitMb: 1 });
    await session.run('large = __import__("os").urandom(3 << 20)');
    await expect(session.checkpoint({ name: 'none', durable: true })).rejects.toMatchObject({
      code: 'CHECKPOINT_TOO_LARGE',
      details: { lost: [expect.objectContaining({ name: 'large' })] },
    });
    expect((await session.checkpoints()).filter(({ automatic }) => !automatic)).toEqual([]);
    expect(await evaluate(session, 'len(large)')).toBe(3 << 20);
  });

  it('can be as large as several chunks on disk', async () => {
    const dataDir = await scratchFolder();
    const first = await open({ dataDir });
    await first.run('import os, hashlib\nblocks = [os.urandom(7 << 20) for _ in range(4)]\nmore = os.urandom(9 << 20)');
    const digest = 'hashlib.sha256(b"".join(blocks) + more).hexdigest()';
    const was = await evaluate(first, digest);
    const { bytes } = await first.checkpoint({ name: 'large', durable: true });
    expect(bytes).toBeGreaterThan(37 << 20);
    await first.close();
    await using second = await open({ dataDir });
    await second.restore('large');
    expect(await evaluate(second, digest)).toBe(was);
  });
}

/** Data that cannot be made any smaller, so that it has a segment of its own somewhere in the middle. */
const CONTENT = 'import os\none = os.urandom(2000); two = os.urandom(2000); three = [os.urandom(2000)]';

function damage(open: Open): void {
  const prepare = async (): Promise<{ session: Session; path: string; id: string }> => {
    const dataDir = await scratchFolder();
    const session = await open({ dataDir, saveAfterMs: 3_600_000 });
    await session.run(CONTENT);
    const { id } = await session.checkpoint({ name: 'made', durable: true });
    return { session, id, path: join(checkpointFolder(dataDir), id) };
  };

  it('in one byte loses the variables of that part, and restores the rest', async () => {
    const { session, path } = await prepare();
    const was = await evaluate(session, '[one, three[0]]');
    const { chunk, offset, bytes } = locate(path, 'two');
    const data = readFileSync(chunk);
    data[offset + Math.floor(bytes / 2)] = (data[offset + Math.floor(bytes / 2)] ?? 0) ^ 1;
    writeFileSync(chunk, data);
    const damagedNames = readManifest(path).segments.find(({ names }) => names.includes('two'))?.names ?? [];
    const { restored, lost } = await session.restore('made');
    expect(Object.keys(reasons(lost)).sort()).toEqual([...damagedNames].sort());
    expect(reasons(lost).two).toContain('damaged');
    const left = ['one', 'two', 'three', 'os'].filter((name) => !damagedNames.includes(name));
    expect([...(restored ?? [])].sort()).toEqual(left.sort());
    expect(await evaluate(session, '"two" in dir()')).toBe(false);
    if (!damagedNames.includes('one')) expect(await evaluate(session, '[one, three[0]]')).toEqual(was);
  });

  const total: [name: string, spoil: (path: string) => void][] = [
    [
      'in every byte',
      (path) => writeFileSync(join(path, '0000.chunk'), randomFillSync(readFileSync(join(path, '0000.chunk')))),
    ],
    ['by being cut to nothing', (path) => truncateSync(join(path, '0000.chunk'), 0)],
    ['by the loss of its data', (path) => rmSync(join(path, '0000.chunk'))],
  ];
  it.each(total)('%s is CHECKPOINT_DAMAGED, and names its variables', async (_name, spoil) => {
    const { session, path, id } = await prepare();
    spoil(path);
    await expect(session.restore('made')).rejects.toMatchObject({
      code: 'CHECKPOINT_DAMAGED',
      details: { id, lost: expect.arrayContaining([expect.objectContaining({ name: 'one' })]) },
    });
    expect(await evaluate(session, '6 * 7')).toBe(42);
  });

  it('cannot be restored, and changes nothing in the kernel that tried', async () => {
    const { session, path } = await prepare();
    rmSync(join(path, '0000.chunk'));
    await session.run('x = 1');
    await expect(session.restore('made')).rejects.toMatchObject({ code: 'CHECKPOINT_DAMAGED' });
    expect(await evaluate(session, '[x, len(one)]')).toEqual([1, 2000]);
  });

  it('by truncation restores what comes before', async () => {
    const { session, path } = await prepare();
    const last = readManifest(path).segments.findLast(({ names }) => names.length > 0);
    const cut = locate(path, last?.names[0] ?? '');
    truncateSync(cut.chunk, cut.offset + cut.bytes - 1);
    const { restored, lost } = await session.restore('made');
    expect(Object.keys(reasons(lost))).toEqual(expect.arrayContaining(last?.names ?? []));
    expect(restored).not.toHaveLength(0);
  });

  it('with more variables than are listed restores the others, unless its table is hit', async () => {
    const dataDir = await scratchFolder();
    const session = await open({ dataDir, saveAfterMs: 3_600_000 });
    await session.run(
      'n = 0\nfor n in range(250): globals()["x%d" % n] = [n]\nfor i in range(150): globals()["g%d" % i] = (_ for _ in ())\ndel i',
    );
    const made = await session.checkpoint({ name: 'made', durable: true });
    expect(made).toMatchObject({ moreSaved: expect.any(Number), moreLost: expect.any(Number) });
    const { saved = [], moreSaved = 0, lost = [], moreLost = 0 } = made;
    expect([saved.length, lost.length]).toEqual([100, 100]);
    expect([saved.length + moreSaved, lost.length + moreLost]).toEqual([251, 150]);
    expect(await session.checkpoints()).toEqual([made]);
    await session.run('x0 = 0; del x249');
    const back = await session.restore('made');
    expect(back).toMatchObject({ checkpoint: made, lost: [] });
    expect([back.restored?.length, back.moreRestored]).toEqual([100, 151]);
    expect(await evaluate(session, '[x0, x249, sum(globals()["x%d" % n][0] for n in range(250))]')).toEqual([
      [0],
      [249],
      31_125,
    ]);
    const path = join(checkpointFolder(dataDir), made.id);
    const chunk = join(path, '0000.chunk');
    const data = readFileSync(chunk);
    data[5] = (data[5] ?? 0) ^ 1;
    writeFileSync(chunk, data);
    expect((await session.restore('made')).moreRestored).toBeGreaterThan(100);
    writeFileSync(chunk, data.subarray(0, -1));
    await expect(session.restore('made')).rejects.toMatchObject({ code: 'CHECKPOINT_DAMAGED' });
    expect(await evaluate(session, 'x249')).toEqual([249]);
  });

  const manifests: [name: string, spoil: (text: string) => string][] = [
    ['cut', (text) => text.slice(0, text.length / 2)],
    ['empty', () => ''],
    ['changed in one place', (text) => text.replace('"made"', '"mode"')],
    ['of another shape', () => '{"format":1}'],
    ['of a later format', (text) => text.replace('"format":1', '"format":99')],
  ];
  it.each(manifests)(
    'with a manifest that is %s is not listed, not found by its name, and damaged by its id',
    async (_name, spoil) => {
      const { session, path, id } = await prepare();
      await session.checkpoint({ name: 'whole', durable: true });
      const manifest = join(path, 'manifest.json');
      writeFileSync(manifest, spoil(readFileSync(manifest, 'utf8')));
      expect((await session.checkpoints()).map(({ name }) => name)).toEqual(['whole']);
      await expect(session.restore('made')).rejects.toMatchObject({ code: 'CHECKPOINT_NOT_FOUND' });
      await expect(session.restore(id)).rejects.toMatchObject({ code: 'CHECKPOINT_DAMAGED' });
      expect((await session.restore('whole')).restored).toContain('one');
    },
  );
}
