/** Writes one artifact beside the others; nobody sees it until its file gets its name. */

import { createHash } from 'node:crypto';
import { type FileHandle, rm } from 'node:fs/promises';
import type { ArtifactFacts, ArtifactInfo } from '../../protocol/artifact.ts';
import { CellaError } from '../../protocol/errors.ts';
import { checkFacts } from '../artifact-facts.ts';
import type { ArtifactWriter } from '../contract.ts';
import { stampOf } from './artifact-about.ts';
import { storageFailed } from './failure.ts';

/** A file that is on the disk under a name of its own. */
export interface Written {
  readonly path: string;
  readonly size: number;
  readonly sha256: string;
  readonly stamp: string;
}

interface Steps {
  readonly publish: (written: Written, facts: ArtifactFacts) => Promise<ArtifactInfo>;
  readonly onEnd: () => void;
}

type State =
  | { readonly kind: 'writing' }
  | { readonly kind: 'failed'; readonly error: unknown }
  | { readonly kind: 'ended' };

export class FileArtifactWriter implements ArtifactWriter {
  readonly #name: string;
  readonly #path: string;
  readonly #file: FileHandle;
  readonly #steps: Steps;
  readonly #hash = createHash('sha256');
  #size = 0;
  #state: State = { kind: 'writing' };
  #turn: Promise<unknown> = Promise.resolve();

  constructor(name: string, path: string, file: FileHandle, steps: Steps) {
    this.#name = name;
    this.#path = path;
    this.#file = file;
    this.#steps = steps;
  }

  write(bytes: Uint8Array): Promise<void> {
    return this.#inTurn(async () => {
      await this.#file.writeFile(bytes);
      this.#hash.update(bytes);
      this.#size += bytes.length;
    });
  }

  async finish(facts: ArtifactFacts): Promise<ArtifactInfo> {
    try {
      return await this.#inTurn(async () => {
        const checked = checkFacts(this.#name, facts);
        await this.#file.sync();
        const stamp = stampOf(await this.#file.stat({ bigint: true }));
        await this.#file.close();
        const sum = { size: this.#size, sha256: this.#hash.digest('hex'), stamp };
        const info = await this.#steps.publish({ path: this.#path, ...sum }, checked);
        this.#end();
        return info;
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
    await this.#file.close();
    await rm(this.#path, { force: true }).catch((cause) => {
      throw storageFailed('remove', this.#path, cause);
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
  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#turn.then(async () => {
      if (this.#state.kind === 'ended') throw new CellaError('STORAGE_FAILED', 'This artifact has been ended before.');
      if (this.#state.kind === 'failed') throw this.#state.error;
      try {
        return await work();
      } catch (cause) {
        const error = storageFailed('write the artifact', this.#name, cause);
        this.#state = { kind: 'failed', error };
        throw error;
      }
    });
    this.#turn = turn.catch(() => {});
    return turn;
  }
}
