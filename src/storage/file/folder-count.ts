/** How many files a folder has, without looking at it each time. */

import { readdir } from 'node:fs/promises';
import { systemCode } from './failure.ts';

/** A count is reused for 20 times as long as it took, at most 2 s: others may add files, too. */
const TIMES = 20;
const LONGEST_KNOWN_MS = 2000;

export class FolderCount {
  readonly #folder: string;
  /** No fewer than there are, as far as this process knows. */
  #known: { count: number; readonly until: number } | undefined;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** A file was written here, which may have taken the place of another. */
  added(): void {
    if (this.#known) this.#known.count += 1;
  }

  async holds(count: number): Promise<boolean> {
    const begun = performance.now();
    // Only what is known to be too few is taken from memory: those that were replaced or deleted count there.
    if (this.#known && begun < this.#known.until && this.#known.count < count) return false;
    const files = await this.#files();
    const now = performance.now();
    this.#known = { count: files.length, until: now + Math.min(LONGEST_KNOWN_MS, TIMES * (now - begun)) };
    return files.length >= count;
  }

  /** Names that begin with a dot are none of ours. */
  async #files(): Promise<string[]> {
    try {
      return (await readdir(this.#folder)).filter((name) => !name.startsWith('.'));
    } catch (error) {
      if (systemCode(error) === 'ENOENT') return [];
      throw error;
    }
  }
}
