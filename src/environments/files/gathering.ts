/** Files of a listing, up to so many or so many bytes of names as JSON has them. */

import type { FileInfo, Listing } from './files.ts';

export class Gathering implements Listing {
  readonly files: FileInfo[] = [];
  readonly #most: number;
  #bytesLeft: number;
  #cut = false;

  constructor(most: number, mostBytes: number) {
    this.#most = most;
    this.#bytesLeft = mostBytes;
  }

  get cut(): boolean {
    return this.#cut;
  }

  /** False where there is no more room. */
  add(file: FileInfo): boolean {
    this.#bytesLeft -= Buffer.byteLength(JSON.stringify(file.name));
    this.#cut ||= this.files.length >= this.#most || this.#bytesLeft < 0;
    if (!this.#cut) this.files.push(file);
    return !this.#cut;
  }
}
