/** Finds short texts by what they are about, also where the question uses other words than they do. */

import { inSlices } from '../../lib/event-loop.ts';
import { type Lexicon, lexicon as sharedLexicon } from './lexicon.ts';
import { nearestSpelling } from './spelling.ts';
import { termsOf } from './terms.ts';

export interface Document {
  readonly id: string;
  /** A name: counts most. */
  readonly title: string;
  readonly text: string;
  /** Counts least. */
  readonly extra: string;
}

export interface Found {
  readonly id: string;
  readonly score: number;
}

const WEIGHTS = { title: 1.3, text: 1, extra: 0.5 } as const;
/** How much more a rare word tells than a frequent one. */
const RARITY_POWER = 1.4;
/** A long text has more words to be found by. */
const LENGTH_POWER = 0.25;
/** Of a query. */
const MOST_TERMS = 64;

export class TextIndex {
  readonly #documents: readonly Document[];
  readonly #lexicon: Lexicon;
  /** By term, how strongly it is in each document that has it, by the document's place. */
  readonly #terms = new Map<string, Map<number, number>>();
  /** By concept, the terms that tell of it, and how clearly. */
  readonly #tellers = new Map<number, [term: string, clarity: number][]>();
  readonly #lengths: number[] = [];

  private constructor(documents: readonly Document[], lexicon: Lexicon) {
    this.#documents = documents;
    this.#lexicon = lexicon;
  }

  static async of(documents: readonly Document[], lexicon: Lexicon = sharedLexicon()): Promise<TextIndex> {
    const index = new TextIndex(documents, lexicon);
    for await (const [at, document] of inSlices(documents.entries())) index.#add(document, at);
    for await (const term of inSlices(index.#terms.keys())) index.#addTeller(term);
    return index;
  }

  /** The best first; only those that have to do with the query at all. Its first words count, and no more than 64. */
  async search(query: string, limit: number): Promise<Found[]> {
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

  #add(document: Document, at: number): void {
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

  /** A word of many concepts tells less of each. */
  #addTeller(term: string): void {
    const { tells } = this.#lexicon.ties(term);
    for (const { concept, strength } of tells) {
      const tellers = this.#tellers.get(concept) ?? [];
      tellers.push([term, strength / Math.sqrt(tells.length)]);
      this.#tellers.set(concept, tellers);
    }
  }

  /** A term that nobody knows may be one that is spelled wrong. */
  async #known(term: string): Promise<string> {
    if (this.#terms.has(term) || this.#lexicon.has(term)) return term;
    return (await nearestSpelling(term, this.#terms.keys())) ?? term;
  }

  /** How well each document answers to a term: by its nearest word, so that near words do not count twice. */
  async #matches(term: string): Promise<Map<number, number>> {
    const matches = new Map<number, number>();
    for await (const [near, nearness] of inSlices(this.#near(term))) {
      for (const [at, weight] of this.#terms.get(near) ?? []) raise(matches, at, weight * nearness);
    }
    return matches;
  }

  /** The terms of the documents that have to do with a term: more so, the more concepts they share. */
  #near(term: string): Map<string, number> {
    const near = new Map<string, number>();
    for (const { concept, strength } of this.#lexicon.ties(term).asks) {
      for (const [teller, clarity] of this.#tellers.get(concept) ?? []) {
        near.set(teller, Math.min(1, (near.get(teller) ?? 0) + strength * clarity));
      }
    }
    return near.set(term, 1);
  }

  /** As in BM25, with documents counted by how well they match: near zero for what is everywhere. */
  #rarity(matches: ReadonlyMap<number, number>): number {
    const count = matches.values().reduce((sum, match) => sum + Math.min(1, match), 0);
    return Math.log(1 + (this.#documents.length - count + 0.5) / (count + 0.5)) ** RARITY_POWER;
  }
}

function raise<K>(values: Map<K, number>, key: K, value: number): void {
  values.set(key, Math.max(values.get(key) ?? 0, value));
}
