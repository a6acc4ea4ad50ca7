import { describe, expect, it } from 'vitest';
import { parseArguments } from './call-arguments.ts';

const parameters = [
  { name: 'text', type: 'string', positional: true },
  { name: 'files', type: 'array', items: 'string', positional: true },
  { name: 'count', type: 'integer' },
  { name: 'ratio', type: 'number' },
  { name: 'deep', type: 'boolean' },
  { name: 'rows', type: 'array', items: 'integer' },
  { name: 'where', type: 'object' },
  { name: 'free', type: 'any' },
] as const;
const named = (...words: string[]) => parseArguments(words, undefined, parameters).named;

describe('parseArguments', () => {
  it('converts values to the declared type', () => {
    expect(named('text=42', 'count=42', 'ratio=0.5', 'deep=yes')).toEqual({
      text: '42',
      count: 42,
      ratio: 0.5,
      deep: true,
    });
    expect(named('count=12345678901234567890')).toEqual({ count: 12345678901234567890n });
    expect(named('where={"a": 1}', 'rows=[1, 2]')).toEqual({ where: { a: 1 }, rows: [1, 2] });
  });

  it('makes a list of repeated values', () => {
    expect(named('rows=1', 'rows=2')).toEqual({ rows: [1, 2] });
    expect(named('rows=1')).toEqual({ rows: [1] });
  });

  it('reads JSON as JSON and the rest as text without a declaration', () => {
    expect(named('free=[1]', 'other=plain', 'empty=')).toEqual({ free: [1], other: 'plain', empty: '' });
    expect(named('free=a=b')).toEqual({ free: 'a=b' });
  });

  it('assigns words without a name by position', () => {
    expect(parseArguments(['12', 'a', '1'], undefined, parameters).positional).toEqual(['12', 'a', '1']);
  });

  it('accepts one JSON object in place of words', () => {
    expect(parseArguments([], '{"text": "x; y"}', parameters).named).toEqual({ text: 'x; y' });
    expect(() => parseArguments(['a=1'], '{}', parameters)).toThrow('given in two ways');
    for (const wrong of ['[1]', '1', 'null', '{', '']) {
      expect(() => parseArguments([], wrong, parameters)).toThrow('not a JSON object');
    }
  });

  it.each([
    ['count=1.5', 'count must be a whole number'],
    ['count=', 'count must be a whole number'],
    ['ratio=much', 'ratio must be a number'],
    ['deep=maybe', 'deep must be true or false'],
    ['where=[1]', 'where must be an object in JSON'],
    ['rows=[1', 'rows must be a list in JSON'],
  ])('refuses %s', (word, message) => expect(() => named(word)).toThrow(message));

  it('refuses a repeated single value', () => {
    expect(() => named('text=a', 'text=b')).toThrow('text is given 2 times');
  });
});
