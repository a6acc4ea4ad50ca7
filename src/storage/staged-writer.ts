/** The one writer of checkpoints and artifacts: its steps run in order, it ends once, and no step runs after a failed one. */

import { SerialQueue } from '../lib/queues.ts';
import { CellaError } from '../protocol/errors.ts';

/** Where the bytes of one writer go. They are not visible before `publish`; `discard` removes them. */
export interface StagedTarget<Given, Result> {
  write(bytes: Uint8Array): Promise<void>;
  publish(given: Given): Promise<Result>;
  discard(): Promise<void>;
}

interface StagedWriterOptions {
  /** For messages: "checkpoint". */
  readonly what: string;
  readonly onEnd: () => void;
  /** Converts an exception of a step to the error for the caller. */
  readonly toError?: (cause: unknown) => unknown;
}

type WriterState =
  | { readonly kind: 'writing' }
  | { readonly kind: 'failed'; readonly error: unknown }
  | { readonly kind: 'ended' };

export class StagedWriter<Given, Result> implements AsyncDisposable {
  readonly #target: StagedTarget<Given, Result>;
  readonly #options: StagedWriterOptions;
  #state: WriterState = { kind: 'writing' };
  readonly #steps = new SerialQueue();
  #bytes = 0;

  constructor(target: StagedTarget<Given, Result>, options: StagedWriterOptions) {
    this.#target = target;
    this.#options = options;
  }

  /** How many bytes have come so far. */
  get bytes(): number {
    return this.#bytes;
  }

  write(bytes: Uint8Array): Promise<void> {
    this.#bytes += bytes.length;
    return this.#run(() => this.#target.write(bytes));
  }

  /** Discards everything if it fails. */
  async finish(given: Given): Promise<Result> {
    try {
      return await this.#run(async () => {
        const result = await this.#target.publish(given);
        this.#end();
        return result;
      });
    } catch (error) {
      await this.abort();
      throw error;
    }
  }

  /** May be called again, and does nothing after `finish`. */
  async abort(): Promise<void> {
    await this.#steps.idle();
    if (this.#state.kind === 'ended') return;
    this.#end();
    await this.#target.discard();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.abort();
  }

  /** A failed step fails all later ones: the data must not have a gap. */
  #run<T>(work: () => Promise<T>): Promise<T> {
    return this.#steps.run(async () => {
      if (this.#state.kind === 'ended') {
        throw new CellaError('STORAGE_FAILED', `This ${this.#options.what} has already ended.`);
      }
      if (this.#state.kind === 'failed') throw this.#state.error;
      try {
        return await work();
      } catch (cause) {
        const error = this.#options.toError ? this.#options.toError(cause) : cause;
        this.#state = { kind: 'failed', error };
        throw error;
      }
    });
  }

  #end(): void {
    this.#state = { kind: 'ended' };
    this.#options.onEnd();
  }
}
