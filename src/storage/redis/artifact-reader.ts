/** Reads one artifact. Its chunks stay for a while after it was replaced or deleted. */

import { CellaError } from '../../protocol/errors.ts';
import type { ArtifactInfo } from '../../protocol/namespace-models.ts';
import type { ArtifactReader } from '../contract.ts';
import { type Content, readRange } from './chunks.ts';
import type { Place } from './place.ts';

export class RedisArtifactReader implements ArtifactReader {
  readonly info: ArtifactInfo;
  readonly #place: Place;
  readonly #content: Content;

  constructor(place: Place, info: ArtifactInfo, content: Content) {
    this.info = info;
    this.#place = place;
    this.#content = content;
  }

  async read(offset: number, length: number): Promise<Uint8Array> {
    const { link, keys } = this.#place;
    const bytes = Math.max(0, Math.min(length, this.info.size - offset));
    const found = await readRange(link, keys, this.#content, offset, bytes);
    if (found) return found;
    const message = `Cannot read artifact ${JSON.stringify(this.info.name)}: it was replaced or deleted meanwhile. Open it again.`;
    throw new CellaError('STORAGE_FAILED', message);
  }

  /** There is nothing to let go of: chunks that nobody needs expire. */
  async [Symbol.asyncDispose](): Promise<void> {}
}
