/** Tells whether a file is what it was. Two changes may fall into one tick of the file system's clock. */

import { createHash } from 'node:crypto';
import type { BigIntStats } from 'node:fs';
import { type FileHandle, lstat } from 'node:fs/promises';
import { MOST_TEXT_BYTES } from '../text-limit.ts';
import { openPlain } from './entries.ts';
import { isSettled } from './settled.ts';

export class Stamps {
  readonly #known = new Map<string, { readonly facts: string; readonly stamp: string }>();

  /** Read where it must be: a file that was left alone for longer than a tick is known by its times. */
  async of(path: string): Promise<string> {
    const known = this.#known.get(path);
    if (known && known.facts === factsOf(await lstat(path, { bigint: true }))) return known.stamp;
    const file = await openPlain(path);
    try {
      return file ? await this.#stamp(path, file) : 'none';
    } finally {
      await file?.close();
    }
  }

  async #stamp(path: string, file: FileHandle): Promise<string> {
    const stats = await file.stat({ bigint: true });
    // Nobody reads a text that is too long.
    if (stats.size > MOST_TEXT_BYTES) return factsOf(stats);
    const settled = isSettled(stats);
    const content = createHash('sha256')
      .update(await file.readFile())
      .digest('hex');
    const stamp = `${stats.mtimeNs} ${content}`;
    if (settled) this.#known.set(path, { facts: factsOf(stats), stamp });
    return stamp;
  }
}

const factsOf = ({ ino, size, mtimeNs, ctimeNs }: BigIntStats): string => [ino, size, mtimeNs, ctimeNs].join(' ');
