/** Which words have to do with each other: each line of the lexicon is one concept, a `~` marks a loose tie. */

import { actions } from './lexicon/actions.ts';
import { computing } from './lexicon/computing.ts';
import { life } from './lexicon/life.ts';
import { living } from './lexicon/living.ts';
import { office } from './lexicon/office.ts';
import { questions } from './lexicon/questions.ts';
import { sciences } from './lexicon/sciences.ts';
import { things } from './lexicon/things.ts';
import { stem } from './stem.ts';

export interface Tie {
  readonly concept: number;
  readonly strength: number;
}

const LOOSE = 0.5;
const NONE: readonly Tie[] = [];

export class Lexicon {
  /** By stem, or by the stems of a phrase with a space between them. */
  readonly #ties = new Map<string, Tie[]>();
  longestPhrase = 1;

  constructor(lines: string) {
    const concepts = lines.split('\n').filter((line) => line !== '');
    concepts.forEach((line, concept) => {
      for (const entry of line.split(' ')) this.#add(entry, concept);
    });
  }

  /** The concepts of a stem or phrase. */
  ties(term: string): readonly Tie[] {
    return this.#ties.get(term) ?? NONE;
  }

  has(term: string): boolean {
    return this.#ties.has(term);
  }

  #add(entry: string, concept: number): void {
    const strength = entry.startsWith('~') ? LOOSE : 1;
    const stems = entry.replace('~', '').split(/[_-]/).map(stem);
    const term = stems.join(' ');
    const ties = this.#ties.get(term) ?? [];
    if (!ties.some((tie) => tie.concept === concept)) ties.push({ concept, strength });
    this.#ties.set(term, ties);
    this.longestPhrase = Math.max(this.longestPhrase, stems.length);
  }
}

let shared: Lexicon | undefined;

/** Made when the first search needs it. */
export function lexicon(): Lexicon {
  shared ??= new Lexicon([actions, things, computing, office, sciences, life, living, questions].join('\n'));
  return shared;
}
