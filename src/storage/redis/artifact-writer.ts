/** Writes one artifact in chunks that nobody sees until what is known of it names them. */

import { createHash } from 'node:crypto';
import type { ArtifactFacts, ArtifactInfo } from '../../protocol/namespace-models.ts';
import { checkFacts } from '../artifact-facts.ts';
import type { ArtifactWriter } from '../contract.ts';
import { WriterSteps } from '../writer-steps.ts';
import { ChunkWriter, type Content } from './chunks.ts';
import type { Place } from './place.ts';

export interface Written {
  readonly content: Content;
  readonly size: number;
  readonly sha256: string;
}

interface Steps {
  readonly publish: (written: Written, facts: ArtifactFacts) => Promise<ArtifactInfo>;
  readonly onEnd: () => void;
}

export class RedisArtifactWriter implements ArtifactWriter {
  readonly #name: string;
  readonly #chunks: ChunkWriter;
  readonly #hash = createHash('sha256');
  readonly #steps: WriterSteps;
  readonly #publish: Steps['publish'];

  constructor({ link, keys }: Place, name: string, { publish, onEnd }: Steps) {
    this.#name = name;
    this.#chunks = new ChunkWriter(link, keys);
    this.#steps = new WriterSteps('artifact', onEnd);
    this.#publish = publish;
  }

  write(bytes: Uint8Array): Promise<void> {
    return this.#steps.take(async () => {
      this.#hash.update(bytes);
      await this.#chunks.write(bytes);
    });
  }

  finish(facts: ArtifactFacts): Promise<ArtifactInfo> {
    const work = async () => {
      const checked = checkFacts(this.#name, facts);
      await this.#chunks.end();
      const { content, bytes } = this.#chunks;
      return this.#publish({ content, size: bytes, sha256: this.#hash.digest('hex') }, checked);
    };
    return this.#steps.finish(work, () => this.#undo());
  }

  abort(): Promise<void> {
    return this.#steps.abort(() => this.#undo());
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.abort();
  }

  /** What cannot be removed expires. */
  async #undo(): Promise<void> {
    await this.#chunks.discard().catch(() => {});
  }
}
