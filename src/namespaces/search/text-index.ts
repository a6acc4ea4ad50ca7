/** Finds short texts by their topic, even if the query uses other words. */

import { giveWay, inSlices } from '../../lib/event-loop.ts';
import { type Lexicon, lexicon as sharedLexicon } from './lexicon.ts';
import { stem } from './stem.ts';

interface SearchDocument {
  readonly id: string;
  /** The name, which counts most. */
  readonly title: string;
  readonly text: string;
  /** Counts least. */
  readonly extra: string;
}

interface SearchHit {
  readonly id: string;
  readonly score: number;
}

const WEIGHTS = { title: 1.3, text: 1, extra: 0.5 } as const;
/** How much more a rare word counts than a frequent one. */
const RARITY_POWER = 1.4;
/** A long text has more words to be found by. */
const LENGTH_POWER = 0.25;
/** The most words of a query. */
const MOST_TERMS = 64;

export class TextIndex {
  readonly #documents: readonly SearchDocument[];
  readonly #lexicon: Lexicon;
  /** For each term: the index of each document that has it, and the term's weight there. */
  readonly #terms = new Map<string, Map<number, number>>();
  /** For each concept: its terms, and how strongly each belongs to it. */
  readonly #documentTerms = new Map<number, [term: string, clarity: number][]>();
  readonly #lengths: number[] = [];

  private constructor(documents: readonly SearchDocument[], lexicon: Lexicon) {
    this.#documents = documents;
    this.#lexicon = lexicon;
  }

  static async of(documents: readonly SearchDocument[], lexicon: Lexicon = sharedLexicon()): Promise<TextIndex> {
    const index = new TextIndex(documents, lexicon);
    for await (const [at, document] of inSlices(documents.entries())) index.#add(document, at);
    for await (const term of inSlices(index.#terms.keys())) index.#addDocumentTerm(term);
    return index;
  }

  /** Matching documents, best first. Only the first 64 words of the query count. */
  async search(query: string, limit: number): Promise<SearchHit[]> {
    const scores = new Float64Array(this.#documents.length);
    for (const term of [...new Set(termsOf(query, this.#lexicon))].slice(0, MOST_TERMS)) {
      const matches = await this.#matches(await this.#known(term));
      const rarity = this.#rarity(matches);
      for (const [at, match] of matches) scores[at] = (scores[at] ?? 0) + match * rarity;
    }
    return this.#documents
      .map(({ id }, at) => ({ id, score: (scores[at] ?? 0) / (1 + (this.#lengths[at] ?? 0)) ** LENGTH_POWER }))
      .filter(({ score }) => score > 0)
      .sort((a, b) => b.score - a.score)
      .slice(0, limit);
  }

  #add(document: SearchDocument, at: number): void {
    const weights = new Map<string, number>();
    for (const part of ['title', 'text', 'extra'] as const) {
      for (const term of termsOf(document[part], this.#lexicon)) raise(weights, term, WEIGHTS[part]);
    }
    this.#lengths.push(weights.size);
    for (const [term, weight] of weights) {
      const places = this.#terms.get(term) ?? new Map<number, number>();
      this.#terms.set(term, places.set(at, weight));
    }
  }

  /** A word of many concepts counts less for each. */
  #addDocumentTerm(term: string): void {
    const { tells } = this.#lexicon.ties(term);
    for (const { concept, strength } of tells) {
      const terms = this.#documentTerms.get(concept) ?? [];
      terms.push([term, strength / Math.sqrt(tells.length)]);
      this.#documentTerms.set(concept, terms);
    }
  }

  /** For an unknown term, which may be misspelled, a similar one. */
  async #known(term: string): Promise<string> {
    if (this.#terms.has(term) || this.#lexicon.has(term)) return term;
    return (await nearestSpelling(term, this.#terms.keys())) ?? term;
  }

  /** How well each document matches a term. Only its nearest word counts, so that similar words do not count twice. */
  async #matches(term: string): Promise<Map<number, number>> {
    const matches = new Map<number, number>();
    for await (const [near, nearness] of inSlices(this.#near(term))) {
      for (const [at, weight] of this.#terms.get(near) ?? []) raise(matches, at, weight * nearness);
    }
    return matches;
  }

  /** Terms of documents that are related to a term; more strongly the more concepts they share. */
  #near(term: string): Map<string, number> {
    const near = new Map<string, number>();
    for (const { concept, strength } of this.#lexicon.ties(term).asks) {
      for (const [documentTerm, clarity] of this.#documentTerms.get(concept) ?? []) {
        near.set(documentTerm, Math.min(1, (near.get(documentTerm) ?? 0) + strength * clarity));
      }
    }
    return near.set(term, 1);
  }

  /** The weight of a term as in BM25, with documents counted by how well they match. Near zero for terms in all documents. */
  #rarity(matches: ReadonlyMap<number, number>): number {
    const count = matches.values().reduce((sum, match) => sum + Math.min(1, match), 0);
    return Math.log(1 + (this.#documents.length - count + 0.5) / (count + 0.5)) ** RARITY_POWER;
  }
}

function raise<K>(values: Map<K, number>, key: K, value: number): void {
  values.set(key, Math.max(values.get(key) ?? 0, value));
}

/** Later words say less about the topic of a text. */
const MOST_WORDS = 1000;

function termsOf(text: string, lexicon: Lexicon): string[] {
  const words = wordsOf(text).slice(0, MOST_WORDS);
  const stems = words.map(stem);
  return words.flatMap((word, at) => {
    const phrases = phrasesAt(stems, at, lexicon);
    return STOP_WORDS.has(word) ? phrases : [...phrases, ...stems.slice(at, at + 1)];
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

/** The words of an identifier or a sentence, in order. */
export function wordsOf(text: string): string[] {
  const plain = text
    .replace(/([\p{Ll}\d])(\p{Lu})/gu, '$1 $2')
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .toLowerCase();
  return plain.match(/[\p{L}\p{N}]+/gu) ?? [];
}

/** Words that say nothing about the topic of a text. */
export const STOP_WORDS: ReadonlySet<string> = new Set(
  `a about after again all along also am an and another any anything are as at be because been before being both but by can could did do does
  doing done each either else ever every everything few for from get gets give given go goes got had has have he her here him his how i if in into
  is it its itself just let like make makes many may me might more most much must my neither nor nothing need needs no not of off on once one onto
  only or other our out over own put same say see shall she should so some someone something still such take tell than that the
  their them then there these they thing things this those through to too under up us use used using very want was way
  we were what when where whether which while who whom within without whose why will with would yes you your s t re ve ll d m`.split(
    /\s+/,
  ),
);

const SHORTEST = 5;
/** How many words are compared before other work gets its turn. */
const AT_ONCE = 1000;

/** The first of `words` of which `word` may be a misspelling. Not for short words: too many are similar. */
async function nearestSpelling(word: string, words: Iterable<string>): Promise<string | undefined> {
  if (word.length < SHORTEST) return undefined;
  let looked = 0;
  for (const other of words) {
    if (++looked % AT_ONCE === 0) await giveWay();
    if (other.length >= SHORTEST - 1 && isOneSlip(word, other)) return other;
  }
  return undefined;
}

function isOneSlip(a: string, b: string): boolean {
  if (Math.abs(a.length - b.length) > 1) return false;
  let start = 0;
  while (start < a.length && a[start] === b[start]) start++;
  const restA = a.slice(start);
  const restB = b.slice(start);
  if (restA.slice(1) === restB || restA === restB.slice(1) || restA.slice(1) === restB.slice(1)) return true;
  return restA[0] === restB[1] && restA[1] === restB[0] && restA.slice(2) === restB.slice(2);
}
