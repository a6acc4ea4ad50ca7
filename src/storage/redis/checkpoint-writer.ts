/** Writes one checkpoint in chunks that nobody sees until its manifest names them. */

import type { Manifest } from '../../protocol/checkpoint.ts';
import type { CheckpointWriter } from '../contract.ts';
import { checkManifest } from '../manifest-check.ts';
import { ChunkWriter, type Content } from './chunks.ts';
import type { Place } from './place.ts';
import { Turns } from './turns.ts';

interface Steps {
  readonly publish: (manifest: Manifest, content: Content) => Promise<void>;
  readonly onEnd: () => void;
}

export class RedisCheckpointWriter implements CheckpointWriter {
  readonly #chunks: ChunkWriter;
  readonly #turns: Turns;
  readonly #publish: Steps['publish'];

  constructor({ link, keys }: Place, { publish, onEnd }: Steps) {
    this.#chunks = new ChunkWriter(link, keys);
    this.#turns = new Turns('checkpoint', onEnd);
    this.#publish = publish;
  }

  write(bytes: Uint8Array): Promise<void> {
    return this.#turns.take(() => this.#chunks.write(bytes));
  }

  finish(manifest: Manifest): Promise<void> {
    const work = async () => {
      const checked = checkManifest(manifest, this.#chunks.bytes);
      await this.#chunks.end();
      await this.#publish(checked, this.#chunks.content);
    };
    return this.#turns.finish(work, () => this.#chunks.discard());
  }

  abort(): Promise<void> {
    return this.#turns.abort(() => this.#chunks.discard());
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.abort();
  }
}
