/** A text as what it is searched by: stems of the words that say something, and the phrases that the lexicon knows. */

import type { Lexicon } from './lexicon.ts';
import { stem } from './stem.ts';
import { SILENT, wordsOf } from './words.ts';

export function termsOf(text: string, lexicon: Lexicon): string[] {
  const words = wordsOf(text);
  const stems = words.map(stem);
  const terms: string[] = [];
  for (let at = 0; at < words.length; at++) {
    for (let length = 2; length <= lexicon.longestPhrase && at + length <= words.length; length++) {
      const phrase = stems.slice(at, at + length).join(' ');
      if (lexicon.has(phrase)) terms.push(phrase);
    }
    if (!SILENT.has(words[at] as string)) terms.push(stems[at] as string);
  }
  return terms;
}
