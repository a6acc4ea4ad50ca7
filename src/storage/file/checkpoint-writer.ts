/** Writes one checkpoint beside the others; nobody sees it until its folder gets its name. */

import { rm } from 'node:fs/promises';
import type { Manifest } from '../../protocol/checkpoint.ts';
import { CellaError } from '../../protocol/errors.ts';
import type { CheckpointWriter } from '../contract.ts';
import { checkManifest } from '../manifest-check.ts';
import { ChunkWriter } from './chunks.ts';
import { storageFailed } from './failure.ts';

type State =
  | { readonly kind: 'writing' }
  | { readonly kind: 'failed'; readonly error: unknown }
  | { readonly kind: 'ended' };

interface Steps {
  /** Writes the manifest into the folder and gives the folder its name. */
  readonly publish: (manifest: Manifest) => Promise<void>;
  readonly onEnd: () => void;
}

export class FileCheckpointWriter implements CheckpointWriter {
  readonly #folder: string;
  readonly #steps: Steps;
  readonly #chunks: ChunkWriter;
  #state: State = { kind: 'writing' };
  #turn: Promise<unknown> = Promise.resolve();

  constructor(folder: string, steps: Steps) {
    this.#folder = folder;
    this.#steps = steps;
    this.#chunks = new ChunkWriter(folder);
  }

  write(bytes: Uint8Array): Promise<void> {
    return this.#inTurn(() => this.#chunks.write(bytes));
  }

  async finish(manifest: Manifest): Promise<void> {
    try {
      await this.#inTurn(async () => {
        const checked = checkManifest(manifest, this.#chunks.bytes);
        await this.#chunks.end();
        await this.#steps.publish(checked);
        this.#end();
      });
    } catch (error) {
      await this.abort();
      throw error;
    }
  }

  async abort(): Promise<void> {
    await this.#turn;
    if (this.#state.kind === 'ended') return;
    this.#end();
    await this.#chunks.close();
    await rm(this.#folder, { recursive: true, force: true }).catch((cause) => {
      throw storageFailed('remove', this.#folder, cause);
    });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.abort();
  }

  #end(): void {
    this.#state = { kind: 'ended' };
    this.#steps.onEnd();
  }

  /** One after the other. What failed once stays failed: a gap in the data must not be written over. */
  #inTurn(work: () => Promise<void>): Promise<void> {
    const turn = this.#turn.then(async () => {
      if (this.#state.kind === 'ended')
        throw new CellaError('STORAGE_FAILED', 'This checkpoint has been ended before.');
      if (this.#state.kind === 'failed') throw this.#state.error;
      try {
        await work();
      } catch (cause) {
        const error = storageFailed('write the checkpoint in', this.#folder, cause);
        this.#state = { kind: 'failed', error };
        throw error;
      }
    });
    this.#turn = turn.catch(() => {});
    return turn;
  }
}
