/** Writes one checkpoint in chunks that nobody sees until its manifest names them. */

import type { Manifest } from '../../protocol/kernel-state.ts';
import type { CheckpointWriter } from '../contract.ts';
import { checkManifest } from '../manifest-check.ts';
import { WriterSteps } from '../writer-steps.ts';
import { ChunkWriter, type Content } from './chunks.ts';
import type { Place } from './place.ts';

interface Steps {
  readonly publish: (manifest: Manifest, content: Content) => Promise<void>;
  readonly onEnd: () => void;
}

export class RedisCheckpointWriter implements CheckpointWriter {
  readonly #chunks: ChunkWriter;
  readonly #steps: WriterSteps;
  readonly #publish: Steps['publish'];

  constructor({ link, keys }: Place, { publish, onEnd }: Steps) {
    this.#chunks = new ChunkWriter(link, keys);
    this.#steps = new WriterSteps('checkpoint', onEnd);
    this.#publish = publish;
  }

  write(bytes: Uint8Array): Promise<void> {
    return this.#steps.take(() => this.#chunks.write(bytes));
  }

  finish(manifest: Manifest): Promise<void> {
    const work = async () => {
      const checked = checkManifest(manifest, this.#chunks.bytes);
      await this.#chunks.end();
      await this.#publish(checked, this.#chunks.content);
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
