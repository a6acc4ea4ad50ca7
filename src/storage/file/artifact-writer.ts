/** Writes one artifact beside the others; nobody sees it until its file gets its name. */

import { createHash } from 'node:crypto';
import { type FileHandle, rm } from 'node:fs/promises';
import type { ArtifactFacts, ArtifactInfo } from '../../protocol/namespace-models.ts';
import { checkFacts } from '../artifact-facts.ts';
import type { ArtifactWriter } from '../contract.ts';
import { WriterSteps } from '../writer-steps.ts';
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

export class FileArtifactWriter implements ArtifactWriter {
  readonly #name: string;
  readonly #path: string;
  readonly #file: FileHandle;
  readonly #steps: Steps;
  readonly #hash = createHash('sha256');
  #size = 0;
  readonly #turns: WriterSteps;

  constructor(name: string, path: string, file: FileHandle, steps: Steps) {
    this.#name = name;
    this.#path = path;
    this.#file = file;
    this.#steps = steps;
    const failure = (cause: unknown) => storageFailed('write the artifact', name, cause);
    this.#turns = new WriterSteps('artifact', steps.onEnd, failure);
  }

  write(bytes: Uint8Array): Promise<void> {
    return this.#turns.take(async () => {
      await this.#file.writeFile(bytes);
      this.#hash.update(bytes);
      this.#size += bytes.length;
    });
  }

  finish(facts: ArtifactFacts): Promise<ArtifactInfo> {
    const work = async () => {
      const checked = checkFacts(this.#name, facts);
      await this.#file.sync();
      const stamp = stampOf(await this.#file.stat({ bigint: true }));
      await this.#file.close();
      const sum = { size: this.#size, sha256: this.#hash.digest('hex'), stamp };
      return await this.#steps.publish({ path: this.#path, ...sum }, checked);
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
    await this.#file.close();
    await rm(this.#path, { force: true }).catch((cause) => {
      throw storageFailed('remove', this.#path, cause);
    });
  }
}
