/** Moments of a kernel that it can go back to: the live checkpoints and the points to undo to, each a frozen fork. */

import { CellaError } from '../protocol/errors.ts';

export interface Moment {
  readonly twin: number;
  readonly id: string;
  readonly name?: string;
  readonly createdAt: number;
  /** How many executions the session had had. */
  readonly execution: number;
  /** Why it cannot be gone back to any more. */
  gone?: string;
}

export interface MomentLimits {
  /** How many live checkpoints there may be. */
  readonly most: number;
  /** How many cells can be undone. */
  readonly undo: number;
  /** Memory that all of them may take together. */
  readonly bytes: number;
}

/** Those that are gone are remembered for a while, so that whoever asks for one hears why. */
const MOST_REMEMBERED = 200;

export class Moments {
  readonly limits: MomentLimits;
  readonly #drop: (twin: number) => void;
  #kept: Moment[] = [];
  #undo: Moment[] = [];

  constructor(limits: MomentLimits, drop: (twin: number) => void) {
    this.limits = limits;
    this.#drop = drop;
  }

  /** Oldest first, those that are gone included. */
  get all(): readonly Moment[] {
    return this.#kept;
  }

  keep(moment: Moment): void {
    for (const old of this.#kept) {
      if (moment.name !== undefined && old.name === moment.name) this.#lose(old, 'another has its name by now');
    }
    this.#kept.push(moment);
    const alive = this.#kept.filter(({ gone }) => gone === undefined);
    for (const old of alive.slice(0, Math.max(0, alive.length - this.limits.most))) {
      this.#lose(old, `it was the oldest of more than ${this.limits.most}`);
    }
    this.#kept = this.#kept.slice(-MOST_REMEMBERED);
  }

  keepForUndo(moment: Moment): void {
    this.#undo.push(moment);
    for (const old of this.#undo.splice(0, Math.max(0, this.#undo.length - this.limits.undo))) this.#drop(old.twin);
  }

  takeUndo(): Moment {
    const last = this.#undo.pop();
    if (!last) throw new CellaError('NOTHING_TO_UNDO', 'There is no earlier point in this kernel to go back to.');
    return last;
  }

  /** By id or name, the newest first. Undefined where there never was one. */
  find(idOrName: string): Moment | undefined {
    const found =
      this.#kept.findLast(({ id, name, gone }) => gone === undefined && (id === idOrName || name === idOrName)) ??
      this.#kept.findLast(({ id, name }) => id === idOrName || name === idOrName);
    if (found?.gone !== undefined) {
      throw new CellaError('CHECKPOINT_GONE', `The checkpoint ${idOrName} is gone: ${found.gone}.`);
    }
    return found;
  }

  remove(moment: Moment): void {
    this.#kept = this.#kept.filter((one) => one !== moment);
    // The number of one that is gone may be that of another by now.
    if (moment.gone === undefined) this.#drop(moment.twin);
  }

  /** `sizes` are in bytes by twin. The oldest go until the rest fit: points to undo to before checkpoints. */
  fit(sizes: Readonly<Record<string, number>>): void {
    const size = ({ twin }: Moment) => sizes[String(twin)] ?? 0;
    const alive = [...this.#undo, ...this.#kept.filter(({ gone }) => gone === undefined)];
    let total = alive.reduce((sum, moment) => sum + size(moment), 0);
    for (const moment of alive.slice(0, -1)) {
      if (total <= this.limits.bytes) return;
      total -= size(moment);
      this.#undo = this.#undo.filter((one) => one !== moment);
      this.#lose(moment, 'checkpoints took too much memory, and it was the oldest');
    }
  }

  /** A frozen fork has ended by itself. */
  lost(twin: number, reason: string): void {
    this.#undo = this.#undo.filter((moment) => moment.twin !== twin);
    const moment = this.#kept.find((one) => one.twin === twin && one.gone === undefined);
    if (moment) moment.gone = reason;
  }

  /** Every one of them has ended, with the place where they lived. */
  lostAll(reason: string): void {
    this.#undo = [];
    for (const moment of this.#kept) moment.gone ??= reason;
  }

  #lose(moment: Moment, reason: string): void {
    if (moment.gone !== undefined) return;
    moment.gone = reason;
    this.#drop(moment.twin);
  }
}
