/**
 * Which words are related. Each line of the lexicon is one concept, and a `~` marks a loosely related word. If a line
 * begins with `word:`, that word is related to each of the others, and the others are not related to each other.
 */

import { actions } from './lexicon/actions.ts';
import { computing } from './lexicon/computing.ts';
import { further } from './lexicon/further.ts';
import { life } from './lexicon/life.ts';
import { living } from './lexicon/living.ts';
import { office } from './lexicon/office.ts';
import { questions } from './lexicon/questions.ts';
import { sciences } from './lexicon/sciences.ts';
import { synonyms } from './lexicon/synonyms.ts';
import { things } from './lexicon/things.ts';
import { stem } from './stem.ts';

interface Tie {
  readonly concept: number;
  readonly strength: number;
}

/** The concepts that a term stands for, in a query and in a text. */
interface Ties {
  readonly asks: Tie[];
  readonly tells: Tie[];
}

const LOOSE = 0.5;
const NONE: Ties = { asks: [], tells: [] };

export class Lexicon {
  /** By stem, or by the stems of a phrase with a space between them. */
  readonly #ties = new Map<string, Ties>();
  #longestPhrase = 1;
  #concepts = 0;

  constructor(lines: string) {
    for (const line of lines.split('\n')) if (line !== '') this.#addLine(line.split(' '));
  }

  /** The longest phrase, in words. */
  get longestPhrase(): number {
    return this.#longestPhrase;
  }

  /** The concepts of a stem or phrase. */
  ties(term: string): { readonly asks: readonly Tie[]; readonly tells: readonly Tie[] } {
    return this.#ties.get(term) ?? NONE;
  }

  has(term: string): boolean {
    return this.#ties.has(term);
  }

  #addLine(words: readonly string[]): void {
    const [first = '', ...rest] = words;
    const one = this.#concepts++;
    if (!first.endsWith(':')) {
      for (const word of words) this.#add(word, one, one);
      return;
    }
    const other = this.#concepts++;
    this.#add(first.slice(0, -1), one, other);
    for (const word of rest) this.#add(word, other, one);
  }

  #add(word: string, asks: number, tells: number): void {
    const strength = word.startsWith('~') ? LOOSE : 1;
    const stems = word.replace('~', '').split(/[_-]/).map(stem);
    const term = stems.join(' ');
    const ties = this.#ties.get(term) ?? { asks: [], tells: [] };
    ties.asks.push({ concept: asks, strength });
    ties.tells.push({ concept: tells, strength });
    this.#ties.set(term, ties);
    this.#longestPhrase = Math.max(this.#longestPhrase, stems.length);
  }
}

const LINES = [actions, things, computing, office, sciences, life, living, further, synonyms, questions];
let shared: Lexicon | undefined;

/** Made when the first search needs it. */
export function lexicon(): Lexicon {
  shared ??= new Lexicon(LINES.join('\n'));
  return shared;
}
