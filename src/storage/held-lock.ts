/** A lock from the moment it is acquired: held until it is let go of, or lost. */

import type { Lock } from './contract.ts';

export class HeldLock implements Lock {
  readonly #letGo: () => Promise<void>;
  #state: { kind: 'held' } | { kind: 'releasing'; done: Promise<void> } = { kind: 'held' };

  constructor(letGo: () => Promise<void>) {
    this.#letGo = letGo;
  }

  get held(): boolean {
    return this.#state.kind === 'held';
  }

  release(): Promise<void> {
    const done = this.#state.kind === 'held' ? this.#letGo() : this.#state.done.catch(() => this.#letGo());
    this.#state = { kind: 'releasing', done };
    return done;
  }

  /** For storages whose locks end by themselves when nobody renews them. */
  lose(): void {
    if (this.#state.kind === 'held') this.#state = { kind: 'releasing', done: Promise.resolve() };
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release();
  }
}
