/** Writes one checkpoint beside the others; nobody sees it until its folder gets its name. */

import { rm } from 'node:fs/promises';
import type { Manifest } from '../../protocol/kernel-state.ts';
import type { CheckpointWriter } from '../contract.ts';
import { checkManifest } from '../manifest-check.ts';
import { WriterSteps } from '../writer-steps.ts';
import { ChunkWriter } from './chunks.ts';
import { storageFailed } from './failure.ts';

interface Steps {
  /** Writes the manifest into the folder and gives the folder its name. */
  readonly publish: (manifest: Manifest) => Promise<void>;
  readonly onEnd: () => void;
}

export class FileCheckpointWriter implements CheckpointWriter {
  readonly #folder: string;
  readonly #steps: Steps;
  readonly #chunks: ChunkWriter;
  readonly #turns: WriterSteps;

  constructor(folder: string, steps: Steps) {
    this.#folder = folder;
    this.#steps = steps;
    this.#chunks = new ChunkWriter(folder);
    const failure = (cause: unknown) => storageFailed('write the checkpoint in', folder, cause);
    this.#turns = new WriterSteps('checkpoint', steps.onEnd, failure);
  }

  write(bytes: Uint8Array): Promise<void> {
    return this.#turns.take(() => this.#chunks.write(bytes));
  }

  finish(manifest: Manifest): Promise<void> {
    const work = async () => {
      const checked = checkManifest(manifest, this.#chunks.bytes);
      await this.#chunks.end();
      await this.#steps.publish(checked);
    };
    return this.#turns.finish(work, () => this.#undo());
  }

  abort(): Promise<void> {
    return this.#turns.abort(() => this.#undo());
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.abort();
  }

  async #undo(): Promise<void> {
    await this.#chunks.close();
    await rm(this.#folder, { recursive: true, force: true }).catch((cause) => {
      throw storageFailed('remove', this.#folder, cause);
    });
  }
}
