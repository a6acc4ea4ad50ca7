/** Finds short texts by what they are about, also where the question uses other words than they do. */

import { type Lexicon, lexicon as sharedLexicon } from './lexicon.ts';
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

export const P = { title: 1.3, text: 1, extra: 0.5, concept: 1, length: 0.25, amb: 0, more: 0, cpow: 1.25, tpow: 1 };

/** Of a document or of what one means: how strongly each is there. */
type Postings = Map<number, number>;

export class TextIndex {
  readonly #documents: readonly Document[];
  readonly #lexicon: Lexicon;
  readonly #terms = new Map<string, Postings>();
  readonly #concepts = new Map<number, Postings>();
  readonly #lengths: number[] = [];

  constructor(documents: readonly Document[], lexicon: Lexicon = sharedLexicon()) {
    this.#documents = documents;
    this.#lexicon = lexicon;
    for (const [at, document] of documents.entries()) this.#add(document, at);
  }

  search(query: string, limit: number): Found[] {
    const scores = new Float64Array(this.#documents.length);
    for (const term of new Set(termsOf(query, this.#lexicon))) this.#score(term, scores);
    const found = this.#documents.map(({ id }, at) => ({
      id,
      score: (scores[at] as number) / (1 + (this.#lengths[at] as number)) ** P.length,
    }));
    return found
      .filter(({ score }) => score > 0)
      .sort((a, b) => b.score - a.score)
      .slice(0, limit);
  }

  #add({ title, text, extra }: Document, at: number): void {
    const weights = new Map<string, number>();
    for (const [part, weight] of [
      [title, P.title],
      [text, P.text],
      [extra, P.extra],
    ] as const) {
      for (const term of termsOf(part, this.#lexicon)) weights.set(term, Math.max(weights.get(term) ?? 0, weight));
    }
    this.#lengths.push(weights.size);
    for (const [term, weight] of weights) {
      keepLargest(this.#terms, term, at, weight);
      for (const { concept, strength } of this.#lexicon.ties(term)) {
        keepLargest(this.#concepts, concept, at, weight * strength);
      }
    }
  }

  /** The best way in which a document answers to one term counts, so that near words do not count twice. */
  #score(term: string, scores: Float64Array): void {
    const best = new Map<number, number>();
    const raise = (postings: Postings | undefined, factor: number, pow = 1): void => {
      if (postings === undefined) return;
      const rarity = Math.log(1 + (this.#documents.length - postings.size + 0.5) / (postings.size + 0.5)) ** pow;
      for (const [at, weight] of postings) {
        const value = weight * factor * rarity;
        const b = best.get(at) ?? 0;
        best.set(at, Math.max(b, value) + P.more * Math.min(b, value));
      }
    };
    raise(this.#terms.get(term), 1);
    const ties = this.#lexicon.ties(term);
    for (const { concept, strength } of ties) {
      raise(this.#concepts.get(concept), (P.concept * strength) / ties.length ** P.amb, P.cpow);
    }
    for (const [at, value] of best) scores[at] = (scores[at] as number) + value ** P.tpow;
  }
}

function keepLargest<K>(all: Map<K, Postings>, key: K, at: number, weight: number): void {
  const postings = all.get(key) ?? new Map<number, number>();
  all.set(key, postings.set(at, Math.max(postings.get(at) ?? 0, weight)));
}
