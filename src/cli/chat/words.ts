/** The words of a chat command, taken apart as a shell does: quotes keep blanks, a backslash keeps the next character. */

import { UsageError } from '../command-errors.ts';

export function splitWords(text: string): string[] {
  const words: string[] = [];
  let word: string | undefined;
  for (let rest = text; rest !== ''; ) {
    const [part = '', blank, single, double, escaped, plain] =
      /^(?:(\s+)|'([^']*)'|"((?:[^"\\]|\\[\s\S])*)"|\\([\s\S])|([^\s'"\\]+))/.exec(rest) ?? [];
    if (part === '') throw new UsageError(`A quote is not closed: ${rest.slice(0, 40)}`, 'Close it, or leave it out.');
    rest = rest.slice(part.length);
    if (blank !== undefined) {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else word = (word ?? '') + (single ?? double?.replace(/\\(["\\])/g, '$1') ?? escaped ?? plain);
  }
  return word === undefined ? words : [...words, word];
}
