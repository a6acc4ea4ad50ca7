/** Files of a listing, up to so many or so many bytes of names as JSON has them. */

import type { FileInfo, Listing } from './files.ts';

export class BoundedListing implements Listing {
  readonly files: FileInfo[] = [];
  readonly #most: number;
  readonly #mostBytes: number;
  #bytes = 0;
  #cut = false;

  constructor(most: number, mostBytes: number) {
    this.#most = most;
    this.#mostBytes = mostBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get cut(): boolean {
    return this.#cut;
  }

  /** False where there is no more room. */
  add(file: FileInfo): boolean {
    const bytes = Buffer.byteLength(JSON.stringify(file.name));
    this.#cut ||= this.files.length >= this.#most || this.#bytes + bytes > this.#mostBytes;
    if (this.#cut) return false;
    this.files.push(file);
    this.#bytes += bytes;
    return true;
  }
}
