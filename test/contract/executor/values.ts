/** What comes back of a value: native where it can be, its type and repr where it cannot, rich forms beside it. */

import { describe, expect, it } from 'vitest';
import { PyObject } from '../../../src/index.ts';
import { collect, type Open } from '../../support/kernels/session.ts';
import { kindLacks, lacks } from '../../support/kernels/unsupported.ts';

const PNG = /^iVBORw0KGgo/;

/** `lend`: for whoever does not mind what the kernel has run before. */
export function valuesContract(open: Open, lend = open): void {
  describe('a value', () => {
    it('made of plain parts arrives unchanged', async () => {
      await using session = await lend();
      const { value } = await session.run('{"a": [1, -2.5, True, None, "é😀"], "b": {"c": ()}, "d": b"\\x00\\xff"}');
      expect(value).toEqual({ a: [1, -2.5, true, null, 'é😀'], b: { c: [] }, d: new Uint8Array([0, 255]) });
    });

    it('that is an integer is exact up to 10,000 digits, and its size and repr beyond', async () => {
      await using session = await lend();
      expect((await session.run('[2**53 - 1, 2**53, -2**53, 2**64]')).value).toEqual([
        Number.MAX_SAFE_INTEGER,
        2n ** 53n,
        -(2n ** 53n),
        2n ** 64n,
      ]);
      expect((await session.run('3 ** 5000')).value).toBe(3n ** 5000n);
      expect((await session.run('1 - 10 ** 10_000')).value).toBe(1n - 10n ** 10_000n);
      expect((await session.run('[1, 2 ** 40_000]')).value).toEqual([
        1,
        new PyObject('int', expect.stringMatching(/^0x10{4000}/) as unknown as string, 40_001),
      ]);
      expect((await session.run('1 << 100_000_000')).value).toEqual(
        new PyObject('int', '<int of 100000001 bits>', 100_000_001),
      );
    });

    it('that Python refuses to write out because of its length has a repr all the same', async () => {
      await using session = await lend();
      expect((await session.run('2 ** 20000')).repr).toBe(`0x1${'0'.repeat(5000)}`);
      expect(await session.run('[2 ** 20000, 1]')).toMatchObject({
        status: 'ok',
        repr: expect.stringMatching(/, 1\]$/),
      });
      // The limit is the code's again.
      expect(await session.run('print(2 ** 20000)')).toMatchObject({ status: 'error', error: { name: 'ValueError' } });
    });

    it('can be NaN, infinite or minus zero', async () => {
      await using session = await lend();
      const { value } = await session.run('[float("nan"), float("inf"), -float("inf"), -0.0]');
      expect(value).toEqual([Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, -0]);
    });

    it('of up to 50,000 items and keys arrives complete, and with more as type, size and repr', async () => {
      await using session = await lend();
      const result = await session.run('list(range(50_000))');
      expect(result.value).toHaveLength(50_000);
      expect((result.value as number[]).every((item, index) => item === index)).toBe(true);
      expect(result.truncated).toBeUndefined();
      expect((await session.run('{"a": list(range(40_000)), "b": {str(n): n for n in range(9_998)}}')).value).toEqual({
        a: expect.any(Array),
        b: expect.any(Object),
      });
      const larger = await session.run('list(range(50_001))');
      expect(larger.value).toMatchObject({
        type: 'list',
        size: 50_001,
        repr: expect.stringMatching(/^\[0, 1, 2, .*…$/),
      });
      expect(larger.repr).toMatch(/^\[0, 1, 2, .* 50000\]$/);
      expect((await session.run('{str(n): n for n in range(500_000)}')).value).toMatchObject({
        type: 'dict',
        size: 500_000,
      });
    });

    it('that cannot be sent arrives as type and repr', async () => {
      await using session = await lend();
      await session.run('class Point:\n    def __repr__(self): return "<point>"\nimport datetime');
      expect((await session.run('{1}')).value).toEqual(new PyObject('set', '{1}'));
      expect((await session.run('Point()')).value).toEqual(new PyObject('Point', '<point>'));
      expect((await session.run('datetime.date(2026, 1, 2)')).value).toEqual(
        new PyObject('datetime.date', 'datetime.date(2026, 1, 2)'),
      );
      expect((await session.run('True and type(1)')).value).toEqual(new PyObject('type', "<class 'int'>"));
    });

    it('with such parts keeps the others', async () => {
      await using session = await lend();
      const { value } = await session.run('{"a": [1, {2}, {"b": 3j}], "c": "text"}');
      expect(value).toEqual({ a: [1, new PyObject('set', '{2}'), { b: new PyObject('complex', '3j') }], c: 'text' });
    });

    it('that is a dict with other keys than text is opaque, alone and nested', async () => {
      await using session = await lend();
      expect((await session.run('{1: 2}')).value).toEqual(new PyObject('dict', '{1: 2}'));
      expect((await session.run('[{1: 2}, {"a": 1}]')).value).toEqual([new PyObject('dict', '{1: 2}'), { a: 1 }]);
    });

    it('that contains itself ends at the repetition', async () => {
      await using session = await lend();
      const result = await session.run('x = [1]\nx.append(x)\nx');
      expect(result.repr).toBe('[1, [...]]');
      expect(result.value).toEqual([1, new PyObject('list', '[1, [...]]')]);
      const dict = await session.run('d = {"n": 1}\nd["me"] = [d]\nd');
      expect(dict.value).toMatchObject({ n: 1, me: [new PyObject('dict', "{'n': 1, 'me': [{...}]}")] });
    });

    it('with shared parts that expand to 2^40 does not hang', async () => {
      await using session = await lend();
      const unfold = 'for _ in range(40): x = [x, x]\nx';
      const result = await session.run(`x = [1]\n${unfold}`);
      expect(result.status).toBe('ok');
      expect(result.value).toBeInstanceOf(PyObject);
      expect((await session.run(`x = [{1}]\n${unfold}`)).value).toBeInstanceOf(PyObject);
      expect((await session.run('x = {1: 2}\nfor _ in range(40): x = {1: x, 2: x}\nx')).status).toBe('ok');
    });

    it('that is nested 100,000 levels deep is shortened', async () => {
      await using session = await lend();
      await session.run('x = []\nfor _ in range(100_000): x = [x]');
      expect(await session.run('x')).toMatchObject({ status: 'ok', repr: '[[[[[[[...]]]]]]]' });
      const level = await session.run('for _ in range(300): x = {"in": (x,)}\nx');
      expect(level).toMatchObject({ status: 'ok', value: { in: [{ in: expect.anything() }] } });
      const whole = await session.run('x = []\nfor _ in range(300): x = [x]\nx');
      expect(whole.repr).toBe('['.repeat(301) + ']'.repeat(301));
    });

    it('keeps lone surrogates and a key named __proto__', async () => {
      await using session = await lend();
      const { value } = await session.run('{"__proto__": "\\ud800"}');
      expect(Object.entries(value as object)).toEqual([['__proto__', '\ud800']]);
    });

    it('with a repr that raises is an error of the code', async () => {
      await using session = await lend();
      const result = await session.run('class R:\n    def __repr__(self): raise ValueError("no repr")\nR()');
      expect(result).toMatchObject({ status: 'error', error: { name: 'ValueError', message: 'no repr' } });
      expect(result.error?.traceback).not.toContain('cella_kernel');
    });

    it('with a repr of ten million characters says what was cut', async () => {
      await using session = await lend();
      const result = await session.run('class R:\n    def __repr__(self): return "x" * 10_000_000\nR()');
      expect(result.repr?.length).toBe(1 << 20);
      expect(result.truncated?.reprCharacters).toBe(10_000_000 - (1 << 20));
    });

    it('of up to 8 MiB arrives complete, and a larger one as type, size and repr, and the kernel lives on', async () => {
      await using session = await lend();
      expect((await session.run('"x" * 8_000_000')).value).toHaveLength(8_000_000);
      expect((await session.run('"\\udc80" * 2_000_000')).value).toBe('\udc80'.repeat(2_000_000));
      for (const code of ['"x" * 70_000_000', 'b"x" * 70_000_000', '["x" * 70_000] * 1000']) {
        const result = await session.run(code);
        expect(result.status).toBe('ok');
        expect(result.value).toBeInstanceOf(PyObject);
      }
      expect((await session.run('"\\udc80" * 20_000_000')).value).toMatchObject({ type: 'str', size: 20_000_000 });
      expect((await session.run('1')).value).toBe(1);
    });
  });

  describe('rich forms', () => {
    it('with more than 100 MIME types lose the rest, and the result says how many', async () => {
      await using session = await lend();
      await session.run(
        'class Wordy:\n    def _repr_mimebundle_(self, **_): return {"a/%d" % n: "x" for n in range(300_000)}',
      );
      const { data, truncated } = await session.run('Wordy()');
      expect(Object.keys(data ?? {})).toHaveLength(99);
      expect(truncated).toEqual({ mimeTypes: 299_901 });
      const shown = await session.run('display(Wordy())');
      expect(Object.keys(shown.displays[0]?.data ?? {})).toHaveLength(100);
      expect(shown.truncated).toEqual({ mimeTypes: 299_901 });
    });

    it('come from Jupyter’s methods, bytes as base64', async () => {
      await using session = await lend();
      await session.run(
        [
          'class Rich:',
          '    def _repr_html_(self): return "<b>x</b>"',
          '    def _repr_png_(self): return b"\\x89PNG"',
          '    def _repr_json_(self): return {"a": [1]}',
          '    def _repr_latex_(self): return None',
        ].join('\n'),
      );
      const { data } = await session.run('Rich()');
      expect(data).toEqual({ 'text/html': '<b>x</b>', 'image/png': 'iVBORw==', 'application/json': { a: [1] } });
    });

    it('come from a MIME bundle, with and without metadata', async () => {
      await using session = await lend();
      await session.run(
        'class Bundle:\n    def _repr_mimebundle_(self, include=None, exclude=None): return {"text/markdown": "*x*"}, {"m": 1}',
      );
      expect((await session.run('Bundle()')).data).toEqual({ 'text/markdown': '*x*' });
    });

    it('that raise do not affect the others, and stderr says why', async () => {
      await using session = await lend();
      await session.run(
        'class Bad:\n    def _repr_html_(self): raise ValueError("no html")\n    def _repr_markdown_(self): return "*m*"',
      );
      const result = await session.run('Bad()');
      expect(result.status).toBe('ok');
      expect(result.data).toEqual({ 'text/markdown': '*m*' });
      expect(result.stderr).toContain('ValueError: no html');
    });

    it('are not requested from an object that has every attribute', async () => {
      await using session = await lend();
      const result = await session.run(
        'class Any:\n    def __getattr__(self, name): return lambda *a, **k: name\nAny()',
      );
      expect(result.status).toBe('ok');
      expect(result.data).toBeUndefined();
    });

    it('of a numpy array are only its repr', async () => {
      await using session = await lend();
      if (await lacks(session, 'native code')) return;
      const result = await session.run('import numpy\nnumpy.arange(3)');
      expect(result.value).toEqual(new PyObject('numpy.ndarray', 'array([0, 1, 2])'));
      expect(result.data).toBeUndefined();
    });

    it('of a pandas frame are HTML and text', async () => {
      await using session = await lend();
      if (await lacks(session, 'native code')) return;
      const result = await session.run('import pandas\npandas.DataFrame({"a": [1, 2]})');
      expect(result.repr).toBe('   a\n0  1\n1  2');
      expect(result.data?.['text/html']).toContain('<table');
    });
  });

  describe('display', () => {
    it('arrives exactly between earlier and later output', async () => {
      await using session = await lend();
      const events = await collect(
        session.stream('for n in range(20):\n    print("before", n)\n    display(n)\n    print("after", n)'),
      );
      let text = '';
      for (const event of events) {
        if (event.type === 'stdout') text += event.text;
        if (event.type === 'display') text += `[${event.data['text/plain']}]\n`;
      }
      const wanted = Array.from({ length: 20 }, (_, n) => `before ${n}\n[${n}]\nafter ${n}\n`);
      expect(text).toBe(wanted.join(''));
    });

    it('arrives after bytes written to descriptor 1 before it', async () => {
      await using session = await lend();
      if (await lacks(session, 'subprocesses')) return;
      const events = await collect(
        session.stream('import os\nos.write(1, b"raw\\n")\ndisplay(1)\nos.system("echo child")\ndisplay(2);'),
      );
      const order = events.map((event) =>
        event.type === 'stdout' ? event.text : event.type === 'display' ? event.data['text/plain'] : event.type,
      );
      expect(order).toEqual(['raw\n', '1', 'child\n', '2', 'result']);
    });

    it('is also in the result, in rich form, and has no value of its own', async () => {
      await using session = await lend();
      await session.run('class H:\n    def _repr_html_(self): return "<i>h</i>"\n    def __repr__(self): return "H!"');
      const result = await session.run('display(H(), 5)');
      expect(result.repr).toBeUndefined();
      expect(result.displays.map(({ data }) => data)).toEqual([
        { 'text/html': '<i>h</i>', 'text/plain': 'H!' },
        { 'text/plain': '5' },
      ]);
    });

    it('from a thread whose cell has ended goes to the background, and never ends the kernel', async () => {
      if (await kindLacks(lend, 'threads')) return;
      await using session = await open();
      await session.run(
        'import threading\nstop = threading.Event()\ndef go():\n    while not stop.is_set(): display("d")\nthread = threading.Thread(target=go)\nthread.start()',
      );
      for (let round = 0; round < 50; round++) {
        const result = await session.run('print("out"); 1');
        expect(result).toMatchObject({ status: 'ok', value: 1, stdout: 'out\n', displays: [] });
      }
      expect((await session.run('stop.set()\nthread.join()\n2')).value).toBe(2);
      await session.close();
      for await (const event of session.background()) expect(['display', 'saved']).toContain(event.type);
    });

    it('that is larger than a frame is an error of the code', async () => {
      await using session = await lend();
      const result = await session.run(
        'class Big:\n    def _repr_html_(self): return "x" * 70_000_000\ndisplay(Big())',
      );
      expect(result).toMatchObject({ status: 'error', error: { name: 'ValueError' } });
      expect((await session.run('1')).value).toBe(1);
    });
  });

  describe('matplotlib', () => {
    const plot = 'import matplotlib.pyplot as plt\nplt.plot([1, 2])';

    it('figures are shown at the end of the cell, once', async () => {
      await using session = await lend();
      if (await lacks(session, 'native code')) return;
      const result = await session.run(`${plot};`);
      expect(result.status).toBe('ok');
      expect(result.displays).toHaveLength(1);
      expect(result.displays[0]?.data['image/png']).toMatch(PNG);
      expect((await session.run('1')).displays).toHaveLength(0);
    });

    it('figures are shown at plt.show(), and not again', async () => {
      await using session = await lend();
      if (await lacks(session, 'native code')) return;
      const events = await collect(session.stream(`print("before")\n${plot}\nplt.show()\nprint("after")`));
      expect(events.map(({ type }) => type)).toEqual(['stdout', 'display', 'stdout', 'result']);
    });

    it('a figure that is the value is shown only as the value', async () => {
      await using session = await lend();
      if (await lacks(session, 'native code')) return;
      const result = await session.run(`${plot}\nplt.gcf()`);
      expect(result.data?.['image/png']).toMatch(PNG);
      expect(result.displays).toHaveLength(0);
    });

    it('numpy, pandas and matplotlib are not imported unless the code does', async () => {
      if (await kindLacks(lend, 'native code')) return;
      await using session = await open();
      await session.run('print("x"); display(1); 1');
      const names = '{"matplotlib", "numpy", "pandas"}';
      expect((await session.run(`import sys\nsorted(${names} & set(sys.modules))`)).value).toEqual([]);
    });
  });
}
