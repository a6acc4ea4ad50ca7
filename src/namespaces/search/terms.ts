/** A text as what it is searched by: stems of the words that say something, and the phrases that the lexicon knows. */

import type { Lexicon } from './lexicon.ts';
import { stem } from './stem.ts';
import { SILENT, wordsOf } from './words.ts';

/** What comes later in a text tells no more of what it is about. */
const MOST_WORDS = 1000;

export function termsOf(text: string, lexicon: Lexicon): string[] {
  const words = wordsOf(text).slice(0, MOST_WORDS);
  const stems = words.map(stem);
  return words.flatMap((word, at) => {
    const phrases = phrasesAt(stems, at, lexicon);
    return SILENT.has(word) ? phrases : [...phrases, ...stems.slice(at, at + 1)];
  });
}

function phrasesAt(stems: readonly string[], at: number, lexicon: Lexicon): string[] {
  const phrases: string[] = [];
  for (let length = 2; length <= lexicon.longestPhrase && at + length <= stems.length; length++) {
    const phrase = stems.slice(at, at + length).join(' ');
    if (lexicon.has(phrase)) phrases.push(phrase);
  }
  return phrases;
}
