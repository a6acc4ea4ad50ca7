/** Writes one artifact, in order and no further than the limit. */

import { CellaError } from '../../protocol/errors.ts';
import type { ArtifactFacts, ArtifactInfo } from '../../protocol/namespace-models.ts';
import type { ArtifactWriter } from '../../storage/contract.ts';

export class BoundedWriter implements ArtifactWriter {
  readonly #name: string;
  readonly #writer: ArtifactWriter;
  readonly #limitBytes: number;
  #written = 0;
  /** Those who write at once wait for each other: the bytes lie in the order of the calls. */
  #turn: Promise<unknown> = Promise.resolve();
  #failure: unknown;

  constructor(name: string, writer: ArtifactWriter, limitBytes: number) {
    this.#name = name;
    this.#writer = writer;
    this.#limitBytes = limitBytes;
  }

  write(bytes: Uint8Array): Promise<void> {
    this.#written += bytes.length;
    const tooLarge = this.#written > this.#limitBytes;
    return this.#next(async () => {
      if (tooLarge) {
        await this.#writer.abort();
        throw this.#tooLarge();
      }
      await this.#writer.write(bytes);
    });
  }

  finish(facts: ArtifactFacts): Promise<ArtifactInfo> {
    return this.#next(() => this.#writer.finish(facts));
  }

  abort(): Promise<void> {
    const aborted = this.#turn.then(() => this.#writer.abort());
    this.#turn = aborted.catch(() => undefined);
    return aborted;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.abort();
  }

  /** What has failed once is not finished with a hole in it. */
  #next<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(async () => {
      if (this.#failure !== undefined) throw this.#failure;
      try {
        return await work();
      } catch (error) {
        this.#failure = error;
        throw error;
      }
    });
    this.#turn = done.catch(() => undefined);
    return done;
  }

  #tooLarge(): CellaError {
    const message = `The artifact ${JSON.stringify(this.#name)} is larger than the limit of ${this.#limitBytes} bytes.`;
    return new CellaError('ARTIFACT_TOO_LARGE', message, {
      details: { name: this.#name, limitBytes: this.#limitBytes },
    });
  }
}
