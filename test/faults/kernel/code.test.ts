/** Code that is broken, hostile to its interpreter, or plainly odd: each cell ends with a clear result, and never hangs. */

import { describe, expect, test } from 'vitest';
import type { ResultEvent } from '../../../src/index.ts';
import { openSession } from '../../support/kernels/session.ts';

const TIMEOUT_MS = 15_000;
const TOO_LARGE = { error: { name: 'CellaValueError', message: expect.stringContaining('too large') } };

/** Runs the cells in one kernel that holds a name, and asks it afterwards for its work and for that name. */
async function endure(...cells: string[]): Promise<{ results: ResultEvent[]; next: ResultEvent; kept: ResultEvent }> {
  const session = await openSession({ graceMs: 500, timeoutMs: TIMEOUT_MS });
  await session.run('kept = 1');
  const results: ResultEvent[] = [];
  for (const cell of cells) results.push(await session.run(cell));
  const [next, kept] = [await session.run("print('heard'); 6 * 7"), await session.run('kept')];
  // What will not be saved either would take its time at the end.
  await session.reset();
  return { results, next, kept };
}

describe('the kernel lives on, with its variables', () => {
  test.each<[name: string, code: string | string[], outcome: object]>([
    [
      'a null byte in code',
      'x = 1\0',
      { error: { name: 'SyntaxError', message: expect.stringContaining('null bytes') } },
    ],
    [
      'a lone surrogate in code',
      's = "\ud800"',
      { error: { name: 'SyntaxError', message: expect.stringContaining('U+D800') } },
    ],
    ['a null byte in output', String.raw`print('a\0b')`, { status: 'ok', stdout: 'a\0b\n' }],
    ['a lone surrogate in output', String.raw`print('\ud800')`, { status: 'ok', stdout: '\\ud800\n' }],
    ['a lone surrogate as the value', String.raw`'\udfff'`, { status: 'ok', value: '\udfff' }],
    [
      'a lone surrogate in an exception',
      String.raw`raise ValueError('\ud800')`,
      { error: { name: 'ValueError', message: '\ud800' } },
    ],
    ['a cell of 20 MB', `x = '${'a'.repeat(20_000_000)}'\nlen(x)`, { status: 'ok', value: 20_000_000 }],
    [
      'a syntax error',
      'def f(:\n    pass',
      { error: { name: 'SyntaxError', traceback: expect.stringContaining('^') } },
    ],
    ['100,000 open brackets', '('.repeat(100_000), { error: { name: 'SyntaxError' } }],
    ['deep recursion', 'def f(): return f()\nf()', { error: { name: 'RecursionError' } }],
    [
      'a value nested 100,000 deep',
      'x = []\nfor _ in range(100_000): x = [x]\nx',
      { status: 'ok', repr: expect.stringContaining('...') },
    ],
    ['a call with 10 MB', 'tools.run("any", x="a" * 10_000_000)', TOO_LARGE],
    [
      'a call with a value that unfolds to a billion parts',
      'x = []\nfor _ in range(30): x = [x, x]\ntools.run("any", x=x)',
      TOO_LARGE,
    ],
    ['a call with a value nested 500 deep', 'x = []\nfor _ in range(500): x = [x]\ntools.run("any", x=x)', TOO_LARGE],
    [
      'sys.exit with a code',
      'import sys; sys.exit(3)',
      { status: 'error', error: { name: 'SystemExit', exitCode: 3 } },
    ],
    ['sys.exit without one', 'import sys; sys.exit()', { status: 'ok' }],
    [
      'sys.exit with atexit handlers',
      'import atexit, signal, sys; atexit.register(signal.pause); sys.exit()',
      { status: 'ok' },
    ],
    ['sys.exit with an enormous code', 'raise SystemExit(10 ** 30)', { error: { name: 'SystemExit' } }],
    ['a stderr that is none', 'import sys; sys.stderr = object(); 1 / 0', { error: { name: 'ZeroDivisionError' } }],
    ['a stdout without its buffer', 'import sys; sys.stdout.detach();', { status: 'ok' }],
    ['a stdin that is none', ['import sys; sys.stdin = None', 'input()'], { error: { name: 'RuntimeError' } }],
    [
      'every builtin deleted',
      'import builtins\nfor name in list(vars(builtins)): delattr(builtins, name)',
      { error: { name: 'NameError' } },
    ],
    ['sys.modules cleared', 'import sys; sys.modules.clear()', { status: 'ok' }],
    [
      'every way to import taken away',
      'import sys; sys.meta_path.clear(); sys.path.clear(); sys.path_hooks.clear()',
      { status: 'ok' },
    ],
    [
      'hooks of sys replaced',
      'import sys; sys.excepthook = sys.displayhook = sys.unraisablehook = None; 5',
      { value: 5 },
    ],
    [
      'a trace function that raises',
      'import sys\ndef trace(*_): raise ValueError("trace")\nsys.settrace(trace)\nprint()',
      { status: 'error' },
    ],
    [
      'a profile function that raises',
      'import sys\ndef profile(*_): raise ValueError("profile")\nsys.setprofile(profile)',
      { error: { name: 'ValueError' } },
    ],
    [
      'threads with a trace function that raises',
      'import threading\ndef trace(*_): raise ValueError("trace")\nthreading.settrace(trace)\nthreading.Thread(target=int).start()',
      { status: 'ok' },
    ],
    [
      'every signal blocked, between cells',
      'import signal; signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals());',
      { status: 'ok' },
    ],
    [
      'the interrupt handler replaced, between cells',
      'import signal; signal.signal(signal.SIGINT, signal.SIG_IGN);',
      { status: 'ok' },
    ],
    ['its working folder removed', 'import os; os.mkdir("sub"); os.chdir("sub"); os.rmdir("../sub")', { status: 'ok' }],
    [
      'its event loop closed',
      ['import asyncio\nawait asyncio.sleep(0)\nasyncio.get_event_loop().close()', 'await asyncio.sleep(0); 5'],
      { value: 5 },
    ],
    [
      'an exception that cannot be shown',
      'class E(Exception):\n    def __str__(self): raise ValueError\n    __repr__ = __str__\nraise E',
      { error: { name: 'E' } },
    ],
    [
      'an exception that exits when shown',
      'class E(Exception):\n    def __str__(self): raise SystemExit\nraise E',
      { error: { name: 'E' } },
    ],
    [
      'a value that cannot be shown',
      'class V:\n    def __repr__(self): raise ValueError("no")\nV()',
      { error: { name: 'ValueError' } },
    ],
    ['a repr that is no text', 'class V:\n    def __repr__(self): return 7\nV()', { error: { name: 'TypeError' } }],
    [
      'a repr that only looks like text',
      'class S(str):\n    def __len__(self): raise ValueError\nclass V:\n    def __repr__(self): return S("shown")\nV()',
      { repr: 'shown' },
    ],
    [
      'a text that says it is another',
      'class S(str):\n    def __str__(self): return "evil"\nS("good")',
      { value: { type: 'S', repr: "'good'" } },
    ],
    [
      'numbers that are more than numbers',
      'class I(int): pass\n[I(5), {"a": I(6)}]',
      { value: [{ type: 'I', repr: '5' }, { a: { type: 'I', repr: '6' } }] },
    ],
    [
      'a dict that cannot be walked',
      'class D(dict):\n    def __iter__(self): raise ValueError\n    items = values = keys = __iter__\nD(a=1)',
      { value: { type: 'D' } },
    ],
    [
      'a list that never ends',
      'class L(list):\n    def __iter__(self):\n        while True: yield 1\nL([1, 2])',
      { value: { type: 'L', repr: '[1, 2]' } },
    ],
    [
      'keys that are equal to everything',
      'class S(str):\n    def __hash__(self): return 1\n    def __eq__(self, other): return True\n{S("k"): 1}',
      { value: { type: 'dict', repr: "{'k': 1}" } },
    ],
    ['an object that lies about its class', 'class V:\n    __class__ = str\nV()', { value: { type: 'V' } }],
    [
      'an object whose class cannot be asked',
      'class V:\n    @property\n    def __class__(self): raise ValueError("class")\nV()',
      {},
    ],
    [
      'a metaclass that raises',
      'class M(type):\n    def __instancecheck__(cls, other): raise ValueError("meta")\n    def __getattribute__(cls, name): raise ValueError(name)\nclass V(metaclass=M): pass\nV()',
      {},
    ],
    [
      'an object that has every attribute',
      'class V:\n    def __getattr__(self, name): return lambda *a, **k: {"x": object()}\nV()',
      { value: { type: 'V' } },
    ],
    [
      'rich forms that are none',
      'class V:\n    def _repr_mimebundle_(self, **_): return {7: object(), "text/html": float("nan"), "x": {1: 2}}\nV()',
      { status: 'ok' },
    ],
    ['a list that holds itself', 'x = []; x.append(x); x', { status: 'ok', repr: '[[...]]' }],
    ['a value that unfolds to 10^12 items', 'x = [1] * 10\nfor _ in range(11): x = [x] * 10\nx', { status: 'ok' }],
    ['a child that comes to the end of the cell', 'import os; os.fork(); 5', { value: 5 }],
    [
      'busy threads left behind',
      'import threading\ndef spin():\n    while True: pass\nthreading.Thread(target=spin, daemon=True).start()',
      { status: 'ok' },
    ],
  ])('%s', async (_name, code, outcome) => {
    const { results, next, kept } = await endure(...(Array.isArray(code) ? code : [code]));
    expect(results.at(-1)).toMatchObject(outcome);
    expect(results.map(({ status }) => status)).not.toContain('timeout');
    expect(next).toMatchObject({ status: 'ok', value: 42, stdout: 'heard\n' });
    expect(kept).toMatchObject({ status: 'ok', value: 1 });
  });
});

describe('the next cell sees what the code did to its interpreter, until a reset', () => {
  test.each<[name: string, code: string, after: object]>([
    ['sys.stdout is None', 'import sys; sys.stdout = None', { status: 'ok', stdout: '', value: 42 }],
    ['sys.stdout is a number', 'import sys; sys.stdout = 7', { error: { name: 'AttributeError' } }],
    [
      'every builtin is None',
      'import builtins\nfor name in list(vars(builtins)): setattr(builtins, name, None)',
      { error: { name: 'TypeError' } },
    ],
  ])('%s', async (_name, code, after) => {
    const session = await openSession({ timeoutMs: TIMEOUT_MS });
    expect((await session.run(code)).status).not.toBe('timeout');
    expect(await session.run("print('heard'); 6 * 7")).toMatchObject(after);
    await session.reset();
    expect(await session.run("print('heard'); 6 * 7")).toMatchObject({ value: 42, stdout: 'heard\n' });
  });
});

describe('the kernel ends or lives, never hangs, and the next cell works', () => {
  test.each([
    ['os functions replaced', 'import os; os.write = os.read = os.close = os.dup2 = os.fstat = os.getpid = None'],
    ['codecs replaced', 'import json, marshal, struct; json.loads = json.dumps = marshal.dumps = struct.pack = None'],
    ['os.getpid lies', 'import os; os.getpid = lambda: 0'],
    [
      'the kernel’s own modules emptied',
      'import sys\nfor name in list(sys.modules):\n    if name.startswith("cella_kernel"): vars(sys.modules[name]).clear()',
    ],
    ['every list emptied', 'import gc\nfor one in gc.get_objects():\n    if type(one) is list: one.clear()'],
    ['every dict emptied', 'import gc\nfor one in gc.get_objects():\n    if type(one) is dict: one.clear()'],
    ['an audit hook that raises', 'import sys\ndef hook(*_): raise ValueError\nsys.addaudithook(hook)'],
    [
      'an exception whose class cannot be named',
      'class M(type):\n    def __getattribute__(cls, name): raise ValueError(name)\nclass E(Exception, metaclass=M): pass\nraise E',
    ],
    ['no more memory by its own limit', 'import resource; resource.setrlimit(resource.RLIMIT_AS, (0, 0))'],
    ['its connection made non-blocking', 'import os; os.set_blocking(256, False)'],
  ])('%s', async (_name, code) => {
    const session = await openSession({ timeoutMs: TIMEOUT_MS });
    const results: ResultEvent[] = [];
    for (const cell of [code, '6 * 7', '6 * 7']) results.push(await session.run(cell));
    // What it did may show only when the next cell is waited for.
    if (results.at(-1)?.status === 'died') results.push(await session.run('6 * 7'));
    expect(results.map(({ status }) => status)).not.toContain('timeout');
    expect(results.at(-1)?.value).toBe(42);
    for (const { death } of results) if (death) expect(death.code).toBe('KERNEL_DIED');
  });

  test('modules that compile cells are replaced: an error each time, until a reset', async () => {
    const session = await openSession({ timeoutMs: TIMEOUT_MS });
    await session.run(
      'import ast, signal, traceback; ast.Expr = ast.Expression = traceback.TracebackException = signal.signal = None',
    );
    expect((await session.run('6 * 7')).status).not.toBe('timeout');
    await session.reset();
    expect((await session.run('6 * 7')).value).toBe(42);
  });
});

describe('the kernel dies, and the result says how', () => {
  test.each([
    ['os._exit', 'import os; os._exit(7)', { exitCode: 7 }],
    ['SIGKILL to itself', 'import os, signal; os.kill(os.getpid(), signal.SIGKILL)', { signal: 'SIGKILL' }],
    ['a segmentation fault', 'import ctypes; ctypes.string_at(0)', { signal: 'SIGSEGV' }],
    ['abort', 'import os; os.abort()', { signal: 'SIGABRT' }],
  ])('%s', async (_name, code, how) => {
    const { results, next } = await endure(code);
    expect(results[0]).toMatchObject({ status: 'died', death: { code: 'KERNEL_DIED', ...how } });
    expect(results[0]?.durationMs).toBeLessThan(TIMEOUT_MS);
    expect(next).toMatchObject({ value: 42, stdout: 'heard\n', recovered: { cause: how } });
  });
});

describe('the timeout works, whatever the code does', () => {
  test.each([
    ['SIGINT ignored', 'import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass', true],
    [
      'SIGINT blocked',
      'import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\nwhile True: pass',
      true,
    ],
    ['SIGINT handled', 'import signal\nsignal.signal(signal.SIGINT, lambda *_: None)\nwhile True: pass', true],
    ['stopped by itself', 'import os, signal; os.kill(os.getpid(), signal.SIGSTOP)', true],
    [
      'an exception that takes forever to show',
      'class E(Exception):\n    def __str__(self):\n        while True: pass\nraise E',
      undefined,
    ],
    ['a value that takes forever to show', 'class V:\n    def __repr__(self):\n        while True: pass\nV()', false],
    ['a rich form that takes forever', 'class V:\n    def _repr_html_(self):\n        while True: pass\nV()', false],
    [
      'a profile function that takes forever',
      'import sys\ndef profile(*_):\n    while True: pass\nsys.setprofile(profile)',
      false,
    ],
  ])('%s', async (_name, code, killed) => {
    // Code that heeds the interrupt has all the time of a busy machine to do so.
    const session = await openSession({ graceMs: killed === false ? 20_000 : 300 });
    const result = await session.run(code, { timeoutMs: 400 });
    expect(result).toMatchObject({ status: 'timeout', error: { name: 'TimeoutError' } });
    if (killed !== undefined) expect(result.death?.signal).toBe(killed ? 'SIGKILL' : undefined);
    expect((await session.run('6 * 7')).value).toBe(42);
  });
});
