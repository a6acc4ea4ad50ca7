import fc from 'fast-check';
import { afterAll, beforeEach, describe, expect, test } from 'vitest';
import { MemoryTexts } from '../../../test/support/namespaces/memory-stores.ts';
import { findPython } from '../../interpreter/find-python.ts';
import { PythonSkillParser } from './skill-parser.ts';
import { Skills } from './skills-namespace.ts';

const python = process.env.CELLA_PYTHON ?? '/usr/bin/python3';
const reader = new PythonSkillParser({ python: () => findPython(python) });
afterAll(() => reader.close());

const hello =
  'async def run(name: str, times=2):\n    """Says hello.\n\n    More than once."""\n    return name * times\n';

let store: MemoryTexts;
let skills: Skills;
beforeEach(() => {
  store = new MemoryTexts();
  skills = new Skills({ store, reader });
});

describe('creating a skill', () => {
  test('stores its source, and reads description and parameters from it', async () => {
    const info = await skills.create({ name: 'hello', source: hello });
    expect(info).toEqual({
      name: 'hello',
      description: 'Says hello.',
      parameters: [
        { name: 'name', kind: 'positional_or_keyword', annotation: 'str', required: true },
        { name: 'times', kind: 'positional_or_keyword', default: '2', required: false },
      ],
      updatedAt: expect.any(Number),
    });
    expect(await skills.list()).toEqual([info]);
    expect(await skills.get('hello')).toEqual({ ...info, source: hello });
  });

  test('is refused at the maximum number, unless it replaces one', async () => {
    const few = new Skills({ store, reader, most: 2 });
    await few.create({ name: 'one', source: hello });
    await few.create({ name: 'two', source: hello });
    const full = { code: 'QUOTA_EXCEEDED', message: expect.stringContaining('CELLA_MAX_SKILLS') };
    await expect(few.create({ name: 'three', source: hello })).rejects.toMatchObject(full);
    await few.create({ name: 'two', source: hello }, { replace: true });
    await few.delete('one');
    await few.create({ name: 'three', source: hello });
  });

  test('is refused at the maximum total size, which includes list entries', async () => {
    const parameters = Array.from({ length: 200 }, (_, number) => `a${number}`).join(',');
    const source = `async def run(${parameters}): pass`;
    const few = new Skills({ store, reader, mostBytes: 40_000 });
    await few.create({ name: 'one', source });
    await few.create({ name: 'two', source });
    const full = { code: 'QUOTA_EXCEEDED', details: { quota: 'skillBytes', limit: 40_000 } };
    await expect(few.create({ name: 'three', source })).rejects.toMatchObject(full);
    for (let times = 0; times < 3; times++) await few.create({ name: 'two', source }, { replace: true });
    const again = new Skills({ store, reader, mostBytes: 40_000 });
    await expect(again.create({ name: 'three', source })).rejects.toMatchObject(full);
    await few.delete('one');
    await few.create({ name: 'three', source });
  });

  test('is limited for concurrent callers too', async () => {
    const few = new Skills({ store, reader, mostBytes: 40_000 });
    const source = `async def run(): pass\n#${'x'.repeat(10_000)}`;
    const all = Array.from({ length: 8 }, (_, number) => few.create({ name: `skill${number}`, source }));
    const created = (await Promise.allSettled(all)).filter(({ status }) => status === 'fulfilled');
    expect(created).toHaveLength(3);
  });

  test('has a limit on parameters; a skill from before the limit works, and lists its first ones', async () => {
    const source = (count: number) =>
      `async def run(${Array.from({ length: count }, (_, number) => `a${number}`).join(', ')}): pass`;
    expect((await skills.create({ name: 'most', source: source(255) })).parameters).toHaveLength(255);
    await expect(skills.create({ name: 'more', source: source(256) })).rejects.toMatchObject({
      code: 'SKILL_INVALID',
      message: expect.stringContaining('more than 255 parameters'),
    });
    await store.put('old', source(30_000));
    expect(await skills.get('old')).toMatchObject({ name: 'old', source: source(30_000) });
    expect((await skills.get('old')).parameters).toHaveLength(255);
    expect(await skills.problems()).toEqual([]);
  });

  test('every kind of parameter is described', async () => {
    const source = 'async def run(a, /, b, *rest, c: "list[int] | None" = None, d, **more): pass';
    const { parameters } = await skills.create({ name: 'kinds', source });
    expect(parameters.map(({ name, kind, required }) => [name, kind, required])).toEqual([
      ['a', 'positional_only', true],
      ['b', 'positional_or_keyword', true],
      ['rest', 'var_positional', false],
      ['c', 'keyword_only', false],
      ['d', 'keyword_only', true],
      ['more', 'var_keyword', false],
    ]);
  });

  test.each([
    ['plain', 'Greets a person'],
    ['quotes', 'He said """hi""" and \'\'\'ho\'\'\' "'],
    ['a backslash at the end', 'C:\\new\\'],
    ['an end of the literal and code', '"""\nimport os; os.abort()\n"""'],
    ['braces and escapes', '{x} \\N{DASH} \\u0041 %s'],
    ['other scripts', 'Grüßt 世界 🎈'],
    ['control characters', 'bell\x07 and\x1b[31m'],
    ['two paragraphs', 'First.\n\nSecond.'],
  ])('a given description is kept in the source: %s', async (_what, description) => {
    const info = await skills.create({ name: 'hello', source: hello, description });
    expect(info.description).toBe(description);
    expect(info.parameters).toHaveLength(2);
    const elsewhere = new Skills({ store, reader });
    expect(await elsewhere.list()).toEqual([info]);
  });

  test('any description is stored unchanged', async () => {
    const anything = fc.string({ unit: fc.constantFrom('"', "'", '\\', '\n', '{', 'N', 'x', '#', ' ', '\0', '🎈') });
    const check = async (words: string): Promise<void> => {
      const description = `a${words}b`;
      const info = await skills.create({ name: 'hello', source: hello, description }, { replace: true });
      const plain = (text: string) => text.replace(/[ \n]+/g, ' ');
      expect(plain(info.description)).toBe(plain(description));
      expect(info.parameters).toHaveLength(2);
    };
    await fc.assert(fc.asyncProperty(anything, check), { numRuns: 100 });
  });

  test.each([
    ['`from __future__`', `from __future__ import annotations\n${hello}`],
    ['a docstring of its own', `'''Old words.'''\nfrom __future__ import annotations\n${hello}`],
    ['a docstring of two parts', `("Old "\n"words — ü 🎈") ; import os\n${hello}`],
    ['a first line for the shell', `#!/usr/bin/env python3\n# -*- coding: utf-8 -*-\n# a note\n${hello}`],
    ['lines that end as on Windows', `"""Old\r\nwords"""\r\n${hello.replaceAll('\n', '\r\n')}`],
    ['a byte order mark', `\ufeff${hello}`],
  ])('a description goes into a source with %s', async (_what, source) => {
    const info = await skills.create({ name: 'hello', source, description: 'New words' });
    expect(info).toMatchObject({ description: 'New words', parameters: [{ name: 'name' }, { name: 'times' }] });
    const kept = (await skills.get('hello')).source;
    expect(kept).not.toContain('Old');
    if (source.startsWith('#!')) expect(kept).toMatch(/^#!.*\n# -\*- coding.*\n"""New words"""\n/);
  });

  test.each(['', '  \n ', undefined])('a description of %j counts as missing', async (description) => {
    expect(await skills.create({ name: 'hello', source: hello, description })).toMatchObject({
      description: 'Says hello.',
    });
    expect((await skills.get('hello')).source).toBe(hello);
  });

  test('a used name is refused, and the existing skill stays', async () => {
    await skills.create({ name: 'hello', source: hello });
    const again = skills.create({ name: 'hello', source: 'async def run(): pass' });
    await expect(again).rejects.toMatchObject({ code: 'NAME_TAKEN' });
    expect((await skills.get('hello')).source).toBe(hello);
    await skills.create({ name: 'hello', source: 'async def run(): pass' }, { replace: true });
    expect((await skills.get('hello')).parameters).toEqual([]);
  });

  test('of two that are created concurrently with one name, one is stored', async () => {
    const both = await Promise.allSettled([1, 2].map(() => skills.create({ name: 'hello', source: hello })));
    expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
  });

  test.each([
    ...['', '../x', 'a-b', 'a.b', '1x', '_x', '__class__', 'class', 'x'.repeat(300), 'a b', 'a\nb'],
    ...['list', 'get', 'search', 'create', 'delete', 'invoke'],
  ])('the name %j is refused', async (name) => {
    await expect(skills.create({ name, source: hello })).rejects.toMatchObject({ code: 'INVALID_NAME' });
    expect(await store.list()).toEqual([]);
  });

  test('a name in another script works, as Python spells it', async () => {
    expect((await skills.create({ name: 'ｇｒüße', source: hello })).name).toBe('grüße');
    expect((await skills.get('ｇｒüße')).name).toBe('grüße');
  });

  test.each([
    ['a syntax error', 'async def run():\n    return (\n', /line 2/],
    ['`return` outside of a function', 'async def run(): pass\nreturn 1\n', /line 2.*outside function/],
    ['no `run`', 'x = 1\n', /async def run/],
    ['a `run` that is not async', '\ndef run(): pass\n', /line 2.*async def run/],
    ['a `run` inside of something', 'class A:\n    async def run(self): pass\n', /async def run/],
    ['nothing at all', '', /async def run/],
    ['a null character', 'async def run(): pass\0', /null/],
    ['a lone surrogate', 'async def run(): return "\ud800"', /surrogate/],
    ['too much of it', `async def run(): pass\n#${'x'.repeat(300_000)}`, /256 KB/],
    ['a description that is too long', `"""${'x'.repeat(300_000)}"""\nasync def run(): pass\n`, /256 KB/],
  ])('%s is refused, with the reason', async (_what, source, message) => {
    const creating = skills.create({ name: 'x', source });
    await expect(creating).rejects.toMatchObject({ code: 'SKILL_INVALID', message: expect.stringMatching(message) });
    expect(await store.list()).toEqual([]);
  });

  test('the source does not run when it is created or listed', async () => {
    const source = `raise SystemExit(3)\n@print("ran")\nasync def run(x=1/0): pass\n`;
    await skills.create({ name: 'trap', source, description: 'a trap' });
    expect(await skills.list()).toMatchObject([{ name: 'trap', parameters: [{ name: 'x', default: '1 / 0' }] }]);
  });
});

describe('the skills of a storage', () => {
  test('an invalid file is reported, and the others still load', async () => {
    await skills.create({ name: 'good', source: hello });
    await store.put('broken', 'async def run(:\n');
    await store.put('not-a-name', hello);
    expect((await skills.list()).map(({ name }) => name)).toEqual(['good']);
    expect(await skills.problems()).toMatchObject([
      { name: 'broken', line: 1, where: 'memory:broken' },
      { name: 'not-a-name', reason: expect.stringContaining('Python name') },
    ]);
    await expect(skills.get('broken')).rejects.toMatchObject({ code: 'SKILL_INVALID', details: { line: 1 } });
    await skills.delete('broken');
    await skills.delete('not-a-name');
    expect(await skills.problems()).toEqual([]);
  });

  test('an edited file is noticed', async () => {
    await skills.create({ name: 'hello', source: hello });
    await store.put('hello', '"""Other words."""\nasync def run(): pass\n');
    expect(await skills.get('hello')).toMatchObject({ description: 'Other words.', parameters: [] });
  });

  test('a missing one is reported', async () => {
    await expect(skills.get('nothing')).rejects.toMatchObject({ code: 'SKILL_NOT_FOUND' });
    await expect(skills.delete('nothing')).rejects.toMatchObject({ code: 'SKILL_NOT_FOUND' });
    await expect(skills.delete('../x')).rejects.toMatchObject({ code: 'INVALID_NAME' });
  });

  test('search finds by description, and respects its limit', async () => {
    await skills.create({ name: 'resize', source: hello, description: 'Makes a picture smaller' });
    await skills.create({ name: 'shrink', source: hello, description: 'Makes a video smaller' });
    await skills.create({ name: 'mail', source: hello, description: 'Sends a letter' });
    expect((await skills.search('picture')).map(({ name }) => name)[0]).toBe('resize');
    expect(await skills.search('smaller', { limit: 1 })).toHaveLength(1);
    expect(await skills.search('')).toEqual([]);
    await skills.delete('resize');
    expect((await skills.search('picture')).map(({ name }) => name)).not.toContain('resize');
  });
});

describe('skills for the code of a kernel', () => {
  const context = {
    signal: new AbortController().signal,
    progress: () => undefined,
    whileAsking: <T>(work: () => Promise<T>) => work(),
  };
  const call = (name: string, params: unknown) => skills.methods()[`skills.${name}`]?.perform(params, context);

  test('each method returns plain values', async () => {
    const info = await call('create', { name: 'hello', source: hello, description: null });
    expect(info).toMatchObject({ name: 'hello', description: 'Says hello.' });
    expect(await call('list', {})).toEqual({ items: [info], more: false });
    expect(await call('list', { after: 'zz' })).toEqual({ items: [], more: false });
    expect(await call('get', { name: 'hello' })).toEqual({ ...(info as object), source: hello });
    expect(await call('search', { query: 'hello', limit: 3 })).toEqual([info]);
    expect(await call('delete', { name: 'hello' })).toBeNull();
    await expect(call('delete', { name: 'hello' })).rejects.toMatchObject({ code: 'SKILL_NOT_FOUND' });
  });

  test.each([
    ['create', { name: 'x', source: 7, description: null }],
    ['create', { name: 'x', source: hello, description: null, replace: true }],
    ['search', { query: 'x', limit: 0 }],
    ['get', {}],
  ])('%s with wrong parameters is refused', async (name, params) => {
    await expect(call(name, params)).rejects.toThrow();
  });
});
