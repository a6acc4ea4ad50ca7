import fc from 'fast-check';
import { expect, test } from 'vitest';
import { expectNoStall } from '../../../test/support/servers/stalls.ts';
import { parseToolJson, readLines, readToolJson } from './tool-output.ts';

test('JSON is read as JSON.parse reads it', async () => {
  await fc.assert(
    fc.asyncProperty(fc.jsonValue(), fc.constantFrom(undefined, 1, '\t'), async (value, space) => {
      const text = JSON.stringify(value, null, space);
      expect(await readToolJson(text)).toEqual(await parseToolJson(text, 'It'));
    }),
  );
});

test('invalid JSON is refused, and valid JSON is not', async () => {
  const good = [
    '{"a":[1,{"b":null}],"a":2}',
    ' [ ] ',
    '"\\\\"',
    '"\\"\\\\\\""',
    '-0',
    '1E+2',
    '{"__proto__":{"x":1}}',
    '1.5',
  ];
  const bad = [
    '',
    ' ',
    '[',
    ']',
    '[1',
    '[1,',
    '[1,]',
    '{',
    '{"a"',
    '{"a":',
    '{"a":1,',
    '{"a":1,}',
    '{a:1}',
    '{"a" 1}',
    '[1 2]',
  ];
  const worse = [
    '01',
    '+1',
    '1.',
    '.5',
    '-',
    'nul',
    'nulls',
    '"',
    '"\\"',
    '"\n"',
    '"\\x"',
    '[}',
    '{]',
    '1 1',
    '\u00a01',
    '{1:1}',
    '[,1]',
  ];
  for (const text of good) expect(await readToolJson(text), text).toEqual(JSON.parse(text));
  for (const text of [...bad, ...worse]) {
    expect(() => JSON.parse(text), text).toThrow(SyntaxError);
    await expect(readToolJson(text), text).rejects.toThrow(SyntaxError);
  }
});

test('parts of JSON are read as JSON.parse reads them, or refused as it refuses them', async () => {
  const piece = fc.constantFrom(
    '[',
    ']',
    '{',
    '}',
    ',',
    ':',
    '"a"',
    '"',
    '\\',
    '1',
    '-',
    '.5',
    'e3',
    ' ',
    'null',
    'true',
  );
  await fc.assert(
    fc.asyncProperty(fc.array(piece, { maxLength: 12 }), async (pieces) => {
      const text = pieces.join('');
      let expected: unknown;
      try {
        expected = JSON.parse(text);
      } catch {
        await expect(readToolJson(text), text).rejects.toThrow(SyntaxError);
        return;
      }
      expect(await readToolJson(text), text).toEqual(expected);
    }),
    { numRuns: 2000 },
  );
});

test('integers keep their digits, up to a limit; nesting has a limit, too', async () => {
  expect(await readToolJson('[9007199254740993, 1e300, 123]')).toEqual([9007199254740993n, 1e300, 123]);
  for (const long of [`[${'9'.repeat(10_001)}]`, `[${'9'.repeat(100_000)}]`, '['.repeat(300), '['.repeat(100_000)]) {
    await expect(parseToolJson(long, 'It')).rejects.toMatchObject({ code: 'TOOL_FAILED' });
  }
  const deep = (depth: number) => '['.repeat(depth) + ']'.repeat(depth);
  await expect(readToolJson(deep(200))).resolves.toBeDefined();
  await expect(readToolJson(deep(300))).rejects.toThrow('nested deeper');
});

test('lines are as they are split; a line break at the end begins no line', async () => {
  for (const text of ['', '\n', 'a', 'a\n', 'a\nb', '\na\n\n', `${'a\n'.repeat(50_000)}b`]) {
    const lines = text.split('\n');
    if (lines.at(-1) === '') lines.pop();
    expect(await readLines(text, 'It')).toEqual(lines);
  }
});

test('a result has a million values or lines at most, and says so', async () => {
  const words = 'more than a million values. Let the tool return less, or return it as text.';
  const tooMany = { code: 'TOOL_FAILED', message: expect.stringContaining(words) };
  expect(await parseToolJson(`[${'0,'.repeat(999_998)}0]`, 'It')).toHaveLength(999_999);
  await expect(parseToolJson(`[${'0,'.repeat(999_999)}0]`, 'It')).rejects.toMatchObject(tooMany);
  expect(await readLines('\n'.repeat(1_000_000), 'It')).toHaveLength(1_000_000);
  await expect(readLines('\n'.repeat(1_000_001), 'It')).rejects.toMatchObject(tooMany);
});

test('a large one is parsed with turns for other work', async () => {
  const texts = [`[${'[],'.repeat(900_000)}1]`, `{${'"a":{},'.repeat(500_000)}"b":1}`, `[${'1,'.repeat(900_000)}1]`];
  for (const text of texts) await expectNoStall(() => parseToolJson(text, 'It'));
  await expectNoStall(() => readLines('abc\n'.repeat(900_000), 'It'));
});
