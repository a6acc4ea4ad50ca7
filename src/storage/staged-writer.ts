/** Runs the steps of one writer in order. It ends once, and no step runs after one that failed. */

import { CellaError } from '../protocol/errors.ts';

type State =
  | { readonly kind: 'writing' }
  | { readonly kind: 'failed'; readonly error: unknown }
  | { readonly kind: 'ended' };

export class StagedWriter {
  /** For messages: "checkpoint". */
  readonly #what: string;
  readonly #onEnd: () => void;
  readonly #failure: (cause: unknown) => unknown;
  #state: State = { kind: 'writing' };
  #turn: Promise<unknown> = Promise.resolve();

  /** `failure` makes of what a step throws what the caller is told. */
  constructor(what: string, onEnd: () => void, failure: (cause: unknown) => unknown = (cause) => cause) {
    this.#what = what;
    this.#onEnd = onEnd;
    this.#failure = failure;
  }

  /** What failed once stays failed: a gap in the data must not be written over. */
  run<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#turn.then(async () => {
      if (this.#state.kind === 'ended') {
        throw new CellaError('STORAGE_FAILED', `This ${this.#what} has been ended before.`);
      }
      if (this.#state.kind === 'failed') throw this.#state.error;
      try {
        return await work();
      } catch (cause) {
        const error = this.#failure(cause);
        this.#state = { kind: 'failed', error };
        throw error;
      }
    });
    this.#turn = turn.catch(() => {});
    return turn;
  }

  /** The last step. Where it fails, `undo` is carried out. */
  async finish<T>(work: () => Promise<T>, undo: () => Promise<void>): Promise<T> {
    try {
      return await this.run(async () => {
        const result = await work();
        this.#end();
        return result;
      });
    } catch (error) {
      await this.abort(undo);
      throw error;
    }
  }

  async abort(undo: () => Promise<void>): Promise<void> {
    await this.#turn;
    if (this.#state.kind === 'ended') return;
    this.#end();
    await undo();
  }

  #end(): void {
    this.#state = { kind: 'ended' };
    this.#onEnd();
  }
}
