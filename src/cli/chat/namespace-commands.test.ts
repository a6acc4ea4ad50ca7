import { describe, expect, it } from 'vitest';
import { splitWords } from './namespace-commands.ts';

describe('splitWords', () => {
  it.each([
    ['', []],
    ['  ', []],
    ['add pandas', ['add', 'pandas']],
    [`add 'pandas >= 2'`, ['add', 'pandas >= 2']],
    [`call say text="a \\"b\\" c" x=1`, ['call', 'say', 'text=a "b" c', 'x=1']],
    [String.raw`a\ b ''`, ['a b', '']],
    ['日本 語', ['日本', '語']],
  ])('%j', (text, words) => expect(splitWords(text)).toEqual(words));

  it.each([`'open`, `a "b`, 'end\\'])('refuses %j', (text) => expect(() => splitWords(text)).toThrow('not closed'));
});
