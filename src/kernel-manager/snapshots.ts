/** The snapshots a kernel can go back to: live checkpoints, the undo stack, and the start of an open transaction. */

import { CellaError } from '../protocol/errors.ts';

export interface LiveCheckpoint {
  readonly snapshot: number;
  readonly id: string;
  readonly name?: string;
  readonly createdAt: number;
  /** How many executions the session had had. */
  readonly execution: number;
  /** Why it cannot be gone back to any more. */
  gone?: string;
}

export interface LiveCheckpointLimits {
  /** How many live checkpoints there may be. */
  readonly maxCount: number;
  /** How many cells can be undone. */
  readonly undo: number;
  /** Memory that all of them may take together. */
  readonly maxBytes: number;
}

/** Those that are gone are remembered for a while, so that whoever asks for one hears why. */
const MOST_REMEMBERED = 200;

export class LiveCheckpoints {
  readonly limits: LiveCheckpointLimits;
  readonly #drop: (twin: number) => void;
  #kept: LiveCheckpoint[] = [];
  #undo: LiveCheckpoint[] = [];

  constructor(limits: LiveCheckpointLimits, drop: (twin: number) => void) {
    this.limits = limits;
    this.#drop = drop;
  }

  /** Oldest first, those that are gone included. */
  get all(): readonly LiveCheckpoint[] {
    return this.#kept;
  }

  add(moment: LiveCheckpoint): void {
    for (const old of this.#kept) {
      if (moment.name !== undefined && old.name === moment.name) this.#evict(old, 'another has its name by now');
    }
    this.#kept.push(moment);
    const alive = this.#kept.filter(({ gone }) => gone === undefined);
    for (const old of alive.slice(0, Math.max(0, alive.length - this.limits.maxCount))) {
      this.#evict(old, `it was the oldest of more than ${this.limits.maxCount}`);
    }
    this.#kept = this.#kept.slice(-MOST_REMEMBERED);
  }

  addUndo(moment: LiveCheckpoint): void {
    this.#undo.push(moment);
    for (const old of this.#undo.splice(0, Math.max(0, this.#undo.length - this.limits.undo))) this.#drop(old.snapshot);
  }

  takeUndo(): LiveCheckpoint {
    const last = this.#undo.pop();
    if (!last) throw new CellaError('NOTHING_TO_UNDO', 'There is no earlier point in this kernel to go back to.');
    return last;
  }

  /** By id or name, the newest first. Undefined where there never was one. */
  find(idOrName: string): LiveCheckpoint | undefined {
    const found =
      this.#kept.findLast(({ id, name, gone }) => gone === undefined && (id === idOrName || name === idOrName)) ??
      this.#kept.findLast(({ id, name }) => id === idOrName || name === idOrName);
    if (found?.gone !== undefined) {
      throw new CellaError('CHECKPOINT_GONE', `The checkpoint ${idOrName} is gone: ${found.gone}.`);
    }
    return found;
  }

  remove(moment: LiveCheckpoint): void {
    this.#kept = this.#kept.filter((one) => one !== moment);
    // The number of one that is gone may be that of another by now.
    if (moment.gone === undefined) this.#drop(moment.snapshot);
  }

  /** `sizes` are in bytes by twin. The oldest go until the rest fit: points to undo to before checkpoints. */
  evictToFit(sizes: Readonly<Record<string, number>>): void {
    const size = ({ snapshot: twin }: LiveCheckpoint) => sizes[String(twin)] ?? 0;
    const alive = [...this.#undo, ...this.#kept.filter(({ gone }) => gone === undefined)];
    let total = alive.reduce((sum, moment) => sum + size(moment), 0);
    for (const moment of alive.slice(0, -1)) {
      if (total <= this.limits.maxBytes) return;
      total -= size(moment);
      this.#undo = this.#undo.filter((one) => one !== moment);
      this.#evict(moment, 'checkpoints took too much memory, and it was the oldest');
    }
  }

  /** A frozen fork has ended by itself. */
  markGone(twin: number, reason: string): void {
    this.#undo = this.#undo.filter((moment) => moment.snapshot !== twin);
    const moment = this.#kept.find((one) => one.snapshot === twin && one.gone === undefined);
    if (moment) moment.gone = reason;
  }

  /** Every one of them has ended, with the place where they lived. */
  markAllGone(reason: string): void {
    this.#undo = [];
    for (const moment of this.#kept) moment.gone ??= reason;
  }

  #evict(moment: LiveCheckpoint, reason: string): void {
    if (moment.gone !== undefined) return;
    moment.gone = reason;
    this.#drop(moment.snapshot);
  }
}

type TransactionState =
  | { readonly kind: 'none' }
  | { readonly kind: 'running' }
  | { readonly kind: 'open'; readonly twin: number };

const NONE: TransactionState = { kind: 'none' };

export class Transaction {
  #state: TransactionState = NONE;

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
