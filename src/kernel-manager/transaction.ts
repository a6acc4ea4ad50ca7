/** Whether there is a twin to go back to: while a cell runs, and after it where an explicit transaction is not decided. */

import { CellaError } from '../protocol/errors.ts';

type State =
  | { readonly kind: 'none' }
  | { readonly kind: 'running' }
  | { readonly kind: 'open'; readonly twin: number };

const NONE: State = { kind: 'none' };

export class Transaction {
  #state: State = NONE;

  /** Whether nothing depends on the twins of the kernel. */
  get none(): boolean {
    return this.#state.kind === 'none';
  }

  /** The twin of one that waits to be decided. */
  get open(): number | undefined {
    return this.#state.kind === 'open' ? this.#state.twin : undefined;
  }

  begin(): void {
    this.#state = { kind: 'running' };
  }

  leaveOpen(twin: number): void {
    this.#state = { kind: 'open', twin };
  }

  /** The cell is over. One that was left open stays so. */
  end(): void {
    if (this.#state.kind === 'running') this.#state = NONE;
  }

  /** Gives the twin to whoever decides. */
  take(): number {
    const twin = this.forget();
    if (twin === undefined) throw new CellaError('NO_TRANSACTION', 'There is no open transaction.');
    return twin;
  }

  /** There is nothing to decide any more. */
  forget(): number | undefined {
    const twin = this.open;
    if (twin !== undefined) this.#state = NONE;
    return twin;
  }
}
