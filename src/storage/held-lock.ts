/** A lock from the moment it is acquired: held until it is let go of, or lost. */

import type { Lock, LockState } from './contract.ts';

type State =
  | { readonly kind: 'held' | 'doubtful' | 'lost' }
  | { readonly kind: 'released'; readonly done: Promise<void> };

export class HeldLock implements Lock {
  readonly key: string;
  readonly #letGo: () => Promise<void>;
  readonly #watchers = new Set<(state: LockState) => void>();
  #state: State = { kind: 'held' };
  #told: LockState = 'held';

  constructor(key: string, letGo: () => Promise<void>) {
    this.key = key;
    this.#letGo = letGo;
  }

  get held(): boolean {
    return this.#state.kind === 'held';
  }

  get state(): LockState {
    return this.#state.kind;
  }

  watch(told: (state: LockState) => void): () => void {
    this.#watchers.add(told);
    return () => this.#watchers.delete(told);
  }

  release(): Promise<void> {
    const state = this.#state;
    if (state.kind === 'lost') return Promise.resolve();
    const done = state.kind === 'released' ? state.done.catch(() => this.#letGo()) : this.#letGo();
    this.#state = { kind: 'released', done };
    return done;
  }

  /** Not held from now on, and nobody is told yet: one question to the storage mostly settles it. */
  doubt(): void {
    if (this.#state.kind === 'held') this.#state = { kind: 'doubtful' };
  }

  /** For storages whose locks end by themselves when nobody renews them. What was lost or let go of stays so. */
  become(kind: 'held' | 'doubtful' | 'lost'): void {
    const before = this.#state.kind;
    if (before === 'released' || before === 'lost') return;
    this.#state = { kind };
    if (before === kind && this.#told === kind) return;
    this.#told = kind;
    for (const told of this.#watchers) told(kind);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release();
  }
}
