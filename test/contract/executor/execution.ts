/** What running a cell means: each statement once, the last value, await, and errors that point at the code. */

import { describe, expect, it } from 'vitest';
import type { Open } from '../../support/kernels/session.ts';

/** `lend`: for whoever does not mind what the kernel has run before. */
export function executionContract(open: Open, lend = open): void {
  describe('execution', () => {
    it('runs each statement once, including a trailing expression with a side effect', async () => {
      await using session = await lend();
      await session.run('calls = []');
      const result = await session.run('calls.append("statement")\ncalls.append("expression") or len(calls)');
      expect(result).toMatchObject({ status: 'ok', value: 2, repr: '2' });
      expect((await session.run('calls')).value).toEqual(['statement', 'expression']);
    });

    it('keeps variables between cells', async () => {
      await using session = await lend();
      await session.run('x = 20\ndef double(n): return n * 2');
      expect((await session.run('double(x) + 2')).value).toBe(42);
    });

    it('has no value if the last statement is not an expression, or its value is None', async () => {
      await using session = await lend();
      for (const code of ['x = 1', 'None', 'if True:\n    5', '', '# only a comment', '\n\n']) {
        const result = await session.run(code);
        expect(result.status, code).toBe('ok');
        expect('value' in result || 'repr' in result, code).toBe(false);
      }
    });

    it.each([
      ['5;', false],
      ['5 ;  ', false],
      ['5; # loud', false],
      ['5;# loud', false],
      ['(5);', false],
      ['(\n  5\n);', false],
      ['[\n  5,\n];  # ; ', false],
      ['"é😀";', false],
      ['x = 1; 5;', false],
      ['"""a\u2028b\x0cc"""\n5;', false],
      ['5', true],
      ['5 # ;', true],
      ['";"', true],
      ['"a;"  # ";', true],
      ['x = 1; 5', true],
      ['"""\n;\n"""', true],
      ['"""a\u2028b;\x0cc"""\n5', true],
    ])('silences a value by a trailing semicolon, and by nothing else: %j', async (code, shown) => {
      await using session = await lend();
      const result = await session.run(code);
      expect(result.status).toBe('ok');
      expect(result.repr !== undefined).toBe(shown);
    });

    it('keeps the last values in _, __ and ___', async () => {
      await using session = await lend();
      for (const code of ['1', '2', 'x = 9', '3', 'None']) await session.run(code);
      expect((await session.run('[_, __, ___]')).value).toEqual([3, 2, 1]);
    });

    it('is the module __main__', async () => {
      await using session = await lend();
      await session.run('x = 5\nclass C: pass');
      const result = await session.run('import sys\n[__name__, sys.modules["__main__"].x, C.__module__]');
      expect(result.value).toEqual(['__main__', 5, '__main__']);
    });

    it('distinguishes a comparison, which is a value, from an assignment, which is not', async () => {
      await using session = await lend();
      await session.run('x = 1');
      for (const code of ['x <= 1', 'x >= 1', 'x == 1', '\n\nx <= 1', 'y = 2\nx == 1', 'x=2;x==2']) {
        expect({ code, value: (await session.run(code)).value }).toEqual({ code, value: true });
      }
      for (const code of ['x = 1', 'x += 1', 'x <<= 1', 'x **= 2', 'x //= 1', 'import os', 'pass', 'x: int = 3']) {
        expect({ code, repr: (await session.run(code)).repr }).toEqual({ code, repr: undefined });
      }
      expect((await session.run('"""\nx = 5"""')).value).toBe('\nx = 5');
      expect((await session.run('dict(\nx = 5)')).value).toEqual({ x: 5 });
    });

    it('awaits at the top level, in statements and in the last expression', async () => {
      await using session = await lend();
      await session.run('import asyncio\nasync def later(x):\n    await asyncio.sleep(0)\n    return x');
      expect((await session.run('y = await later(1)\nawait later(y + 1)')).value).toBe(2);
      const loop = 'async def numbers():\n    for n in range(3): yield n\ntotal = 0\n';
      expect((await session.run(`${loop}async for n in numbers(): total += n\ntotal`)).value).toBe(3);
      expect((await session.run('[n async for n in numbers()]')).value).toEqual([0, 1, 2]);
    });

    it('has one event loop for all cells; tasks keep running between them', async () => {
      await using session = await open();
      await session.run('import asyncio\nasync def me(): return asyncio.get_running_loop()');
      await session.run('first = await me()');
      expect((await session.run('first is await me()')).value).toBe(true);
      const background = session.background()[Symbol.asyncIterator]();
      await session.run(
        [
          'async def tick():',
          '    for n in range(3):',
          '        await asyncio.sleep(0.01)',
          '    print("ticked", flush=True)',
          'task = asyncio.ensure_future(tick())',
          'await asyncio.sleep(0)',
        ].join('\n'),
      );
      expect((await background.next()).value).toMatchObject({ text: expect.stringMatching(/^ticked/), execution: 4 });
      expect((await session.run('task.done()')).value).toBe(true);
    });

    it('keeps its other tasks running when one of them exits', async () => {
      await using session = await lend();
      const background = session.background()[Symbol.asyncIterator]();
      await session.run(
        [
          'import asyncio, sys',
          'async def leave(): sys.exit(3)',
          'async def stay():',
          '    await asyncio.sleep(0.05)',
          '    print("stayed", flush=True)',
          'async def begin():',
          '    loop = asyncio.get_running_loop()',
          '    loop.call_later(0.01, lambda: tasks.append(loop.create_task(leave())))',
          '    return [loop.create_task(stay())]',
          'tasks = await begin()',
        ].join('\n'),
      );
      let text = '';
      while (!text.includes('stayed')) {
        const { value } = await background.next();
        if (value?.type === 'stdout') text += value.text;
      }
      expect((await session.run('1')).status).toBe('ok');
    });

    it('keeps a __future__ import for later cells', async () => {
      await using session = await open();
      const code = 'def f(x: not_defined_anywhere): pass\nf.__annotations__["x"]';
      expect((await session.run(code)).error?.name).toBe('NameError');
      await session.run('from __future__ import annotations');
      expect((await session.run(code)).value).toBe('not_defined_anywhere');
    });

    it('ends with sys.exit, and the kernel stays alive', async () => {
      await using session = await lend();
      expect(await session.run('x = 1\nimport sys\nsys.exit()\nx = 2')).toMatchObject({ status: 'ok' });
      expect(await session.run('sys.exit(3)')).toMatchObject({
        status: 'error',
        error: { name: 'SystemExit', exitCode: 3 },
      });
      expect((await session.run('sys.exit("why")')).error).toMatchObject({ message: 'why', exitCode: 1 });
      expect((await session.run('sys.exit(2 ** 70)')).error).toMatchObject({ name: 'SystemExit', exitCode: 1 });
      expect((await session.run('x')).value).toBe(1);
    });

    it('treats null bytes and lone surrogates in code as a SyntaxError', async () => {
      await using session = await lend();
      for (const code of ['x = 1\ny = "\0"', 'x = 1\ny = "\ud800"']) {
        const { status, error } = await session.run(code);
        expect(status).toBe('error');
        expect(error?.name).toBe('SyntaxError');
        expect(error?.traceback).toContain('line 2');
      }
      expect((await session.run('"x" in dir()')).value).toBe(false);
    });
  });

  describe('an exception', () => {
    it('is an error with the source lines of its cells, and no frame of Cella', async () => {
      await using session = await open();
      await session.run('def deep(n):\n    return 1 / n  # here it breaks');
      const { status, error } = await session.run('x = 1\ndeep(0)');
      expect(status).toBe('error');
      expect(error).toMatchObject({ name: 'ZeroDivisionError', message: 'division by zero' });
      expect(error?.traceback).toMatch(
        /^Traceback \(most recent call last\):\n {2}File "<cell 2>", line 2, in <module>\n {4}deep\(0\)/,
      );
      expect(error?.traceback).toContain('File "<cell 1>", line 2, in deep\n    return 1 / n  # here it breaks');
      expect(error?.traceback).not.toContain('cella_kernel');
      expect(error?.traceback.match(/File /g)).toHaveLength(2);
    });

    it('shows its cause and context', async () => {
      await using session = await lend();
      const { error } = await session.run(
        'try:\n    try:\n        {}["k"]\n    except KeyError:\n        int("x")\nexcept ValueError as e:\n    raise RuntimeError("top") from e',
      );
      expect(error?.traceback).toContain("KeyError: 'k'");
      expect(error?.traceback).toContain('During handling of the above exception');
      expect(error?.traceback).toContain('ValueError: invalid literal');
      expect(error?.traceback).toContain('direct cause');
      expect(error?.traceback.trimEnd().endsWith('RuntimeError: top')).toBe(true);
      expect(error?.traceback).not.toContain('cella_kernel');
    });

    it('points at the right lines even if text contains line separators that only str.splitlines knows', async () => {
      await using session = await lend();
      const { error } = await session.run('s = """a\x0cb\u2028c\x1cd"""\nraise ValueError("here")');
      expect(error?.traceback).toContain('line 2, in <module>\n    raise ValueError("here")');
    });

    it('keeps the effects of the code before it', async () => {
      await using session = await lend();
      const result = await session.run('x = 1\nprint("said")\nraise ValueError\nx = 2');
      expect(result).toMatchObject({ status: 'error', stdout: 'said\n' });
      expect((await session.run('x')).value).toBe(1);
    });

    it('in an awaited coroutine shows the cell, and no frame of Cella', async () => {
      await using session = await lend();
      const { error } = await session.run('async def f():\n    raise ValueError("async")\nawait f()');
      expect(error?.traceback).toContain('line 2, in f\n    raise ValueError("async")');
      expect(error?.traceback).not.toContain('cella_kernel');
    });

    it.each([
      ['whose str() fails', 'class E(Exception):\n    def __str__(self): raise ValueError\nraise E', 'E'],
      [
        'whose str() is a subclass',
        'class S(str): pass\nclass E(Exception):\n    def __str__(self): return S("x")\nraise E',
        'E',
      ],
      ['of forty million characters', 'raise ValueError("x" * 40_000_000)', 'ValueError'],
      [
        'whose class hides its name',
        'class M(type):\n    __name__ = property(lambda c: 1 / 0)\nclass E(Exception, metaclass=M): pass\nraise E',
        'E',
      ],
      ['from a deep recursion', 'def f(): f()\nf()', 'RecursionError'],
      ['that is its own cause', 'e = ValueError()\ne.__cause__ = e\nraise e', 'ValueError'],
    ])('%s is told, and the kernel lives on', async (_name, code, name) => {
      await using session = await lend();
      const { status, error } = await session.run(code);
      expect(status).toBe('error');
      expect(error?.name).toBe(name);
      expect(error?.message.length).toBeLessThan(2_000_000);
      expect((await session.run('E = 1; 1 + 1')).value).toBe(2);
    });
  });

  describe('a syntax error', () => {
    it('of an exception points at the exact expression, also in a last line without a newline', async () => {
      await using session = await lend();
      const { error } = await session.run('x = 1\nvalue = x / 0 + x');
      const [line = '', carets = ''] = error?.traceback.split('\n').slice(2) ?? [];
      expect(line.slice(carets.indexOf('~') < 0 ? 0 : carets.indexOf('~'))).toMatch(/^x \/ 0|^ *value/);
    });

    it('is an error with the line and a caret, and runs nothing of the cell', async () => {
      await using session = await open();
      const { status, error } = await session.run('x = 1\nprint("ran")\ny = = 2');
      expect(status).toBe('error');
      expect(error?.name).toBe('SyntaxError');
      expect(error?.traceback).toMatch(/File "<cell 1>", line 3\n {4}y = = 2\n {8}\^/);
      expect(error?.traceback).not.toContain('cella_kernel');
      expect((await session.run('"x" in dir()')).value).toBe(false);
    });

    it.each(['return 1', 'def f(:', 'x = "', '  indented', 'break', 'f(**{}, *[])'])('is told for %j', async (code) => {
      await using session = await lend();
      const { status, error } = await session.run(code);
      expect(status).toBe('error');
      expect(['SyntaxError', 'IndentationError']).toContain(error?.name);
    });
  });

  describe('inspect.getsource', () => {
    it('returns the source of functions, lambdas, classes and methods, also nested ones', async () => {
      await using session = await lend();
      await session.run(
        'import inspect\ndef f():\n    # a comment\n    return 1\n\nclass A:\n    def m(self):\n        return 2\n    class B:\n        x = 3',
      );
      const source = async (name: string) => (await session.run(`inspect.getsource(${name})`)).value;
      expect(await source('f')).toBe('def f():\n    # a comment\n    return 1\n');
      expect(await source('A')).toBe('class A:\n    def m(self):\n        return 2\n    class B:\n        x = 3\n');
      expect(await source('A.m')).toBe('    def m(self):\n        return 2\n');
      expect(await source('A.B')).toBe('    class B:\n        x = 3\n');
      await session.run(
        'def outer():\n    def inner():\n        return 4\n    class C:\n        y = 5\n    return inner, C\ninner, C = outer()',
      );
      expect(await source('inner')).toBe('    def inner():\n        return 4\n');
      expect(await source('C')).toBe('    class C:\n        y = 5\n');
    });

    it('returns the latest definition, and the old one for an old object', async () => {
      await using session = await lend();
      await session.run('import inspect\ndef f(): return 1\nclass A: x = 1\nold = f');
      await session.run('def f(): return 2\nclass A: x = 2');
      const result = await session.run('[inspect.getsource(x) for x in (f, old, A)]');
      expect(result.value).toEqual(['def f(): return 2\n', 'def f(): return 1\n', 'class A: x = 2\n']);
    });
  });
}
