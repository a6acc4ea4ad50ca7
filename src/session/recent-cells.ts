/** The newest cells of a session, as many as one may have and as long as they may be together. */

import type { HistoryEntry } from './api.ts';

const MOST_CELLS = 1000;
/** Of code, in all: the largest cell there can be fits, and a thousand such do not stay in memory. */
const MOST_CHARACTERS = 32 * 1024 * 1024;

export class RecentCells {
  /** Up to twice as many as are shown: an array that loses its first entry each time is moved each time. */
  #cells: HistoryEntry[];
  #characters = 0;

  constructor(cells: readonly HistoryEntry[]) {
    this.#cells = [...cells];
    for (const { code } of cells) this.#characters += code.length;
  }

  get all(): readonly HistoryEntry[] {
    return this.#cells.slice(-MOST_CELLS);
  }

  add(cell: HistoryEntry): void {
    this.#cells.push(cell);
    this.#characters += cell.code.length;
    if (this.#cells.length > 2 * MOST_CELLS) this.#drop(this.#cells.length - MOST_CELLS);
    if (this.#characters > MOST_CHARACTERS) this.#drop(this.#tooMany());
  }

  /** How many of the oldest have to go so that the rest may stay. The newest always stays. */
  #tooMany(): number {
    let characters = this.#characters;
    let count = 0;
    while (characters > MOST_CHARACTERS && count < this.#cells.length - 1) {
      characters -= this.#cells[count]?.code.length ?? 0;
      count++;
    }
    return count;
  }

  #drop(count: number): void {
    for (const { code } of this.#cells.splice(0, count)) this.#characters -= code.length;
  }
}
