/** Finds short texts by what they are about. */

export interface Document {
  readonly id: string;
  readonly title: string;
  readonly text: string;
  readonly extra: string;
}

export interface Found {
  readonly id: string;
  readonly score: number;
}

export class TextIndex {
  readonly #documents: readonly Document[];

  constructor(documents: readonly Document[]) {
    this.#documents = documents;
  }

  search(query: string, limit: number): Found[] {
    const words = query
      .toLowerCase()
      .split(/\W+/)
      .filter((word) => word !== '');
    return this.#documents
      .map(({ id, title, text }) => ({
        id,
        score: words.filter((word) => `${title} ${text}`.toLowerCase().includes(word)).length,
      }))
      .filter(({ score }) => score > 0)
      .sort((a, b) => b.score - a.score)
      .slice(0, limit);
  }
}
