/** The snapshots a kernel can go back to: live checkpoints, and the undo stack. */

import { CellaError } from '../protocol/errors.ts';

export interface LiveCheckpoint {
  readonly snapshot: number;
  readonly id: string;
  readonly name?: string;
  readonly createdAt: number;
  /** The number of executions in the session at that time. */
  readonly execution: number;
  /** Why it can no longer be restored. */
  gone?: string;
}

export interface LiveCheckpointLimits {
  /** The most live checkpoints. */
  readonly maxCount: number;
  /** How many cells can be undone. */
  readonly undo: number;
  /** The memory limit for all of them together. */
  readonly maxBytes: number;
}

/** How many gone checkpoints to remember for the error message. */
const MOST_REMEMBERED = 200;

export class LiveCheckpoints {
  readonly limits: LiveCheckpointLimits;
  readonly #drop: (snapshot: number) => void;
  #kept: LiveCheckpoint[] = [];
  #undo: LiveCheckpoint[] = [];

  constructor(limits: LiveCheckpointLimits, drop: (snapshot: number) => void) {
    this.limits = limits;
    this.#drop = drop;
  }

  /** Oldest first, including those that are gone. */
  get all(): readonly LiveCheckpoint[] {
    return this.#kept;
  }

  add(checkpoint: LiveCheckpoint): void {
    for (const old of this.#kept) {
      if (checkpoint.name !== undefined && old.name === checkpoint.name)
        this.#evict(old, 'another one has its name now');
    }
    this.#kept.push(checkpoint);
    const alive = this.#kept.filter(({ gone }) => gone === undefined);
    for (const old of alive.slice(0, Math.max(0, alive.length - this.limits.maxCount))) {
      this.#evict(old, `it was the oldest of more than ${this.limits.maxCount}`);
    }
    this.#kept = this.#kept.slice(-MOST_REMEMBERED);
  }

  addUndo(checkpoint: LiveCheckpoint): void {
    this.#undo.push(checkpoint);
    for (const old of this.#undo.splice(0, Math.max(0, this.#undo.length - this.limits.undo))) this.#drop(old.snapshot);
  }

  takeUndo(): LiveCheckpoint {
    const last = this.#undo.pop();
    if (!last) throw new CellaError('NOTHING_TO_UNDO', 'There is no earlier point in this kernel to go back to.');
    return last;
  }

  /** By id or name, newest first. Undefined if there never was one. Throws `CHECKPOINT_GONE`. */
  find(idOrName: string): LiveCheckpoint | undefined {
    const found =
      this.#kept.findLast(({ id, name, gone }) => gone === undefined && (id === idOrName || name === idOrName)) ??
      this.#kept.findLast(({ id, name }) => id === idOrName || name === idOrName);
    if (found?.gone !== undefined) {
      throw new CellaError('CHECKPOINT_GONE', `The checkpoint ${idOrName} is gone: ${found.gone}.`);
    }
    return found;
  }

  remove(checkpoint: LiveCheckpoint): void {
    this.#kept = this.#kept.filter((one) => one !== checkpoint);
    // The snapshot number of a gone checkpoint may belong to another one by now.
    if (checkpoint.gone === undefined) this.#drop(checkpoint.snapshot);
  }

  /** `sizes`: bytes by snapshot. Drops the oldest until the rest fit, the undo stack before checkpoints. */
  evictToFit(sizes: Readonly<Record<string, number>>): void {
    const size = ({ snapshot }: LiveCheckpoint) => sizes[String(snapshot)] ?? 0;
    const alive = [...this.#undo, ...this.#kept.filter(({ gone }) => gone === undefined)];
    let total = alive.reduce((sum, checkpoint) => sum + size(checkpoint), 0);
    for (const checkpoint of alive.slice(0, -1)) {
      if (total <= this.limits.maxBytes) return;
      total -= size(checkpoint);
      this.#undo = this.#undo.filter((one) => one !== checkpoint);
      this.#evict(checkpoint, 'checkpoints used too much memory, and it was the oldest');
    }
  }

  /** Marks a snapshot that has ended on its own. */
  markGone(snapshot: number, reason: string): void {
    this.#undo = this.#undo.filter((checkpoint) => checkpoint.snapshot !== snapshot);
    const checkpoint = this.#kept.find((one) => one.snapshot === snapshot && one.gone === undefined);
    if (checkpoint) checkpoint.gone = reason;
  }

  /** Marks all snapshots as ended with their environment. */
  markAllGone(reason: string): void {
    this.#undo = [];
    for (const checkpoint of this.#kept) checkpoint.gone ??= reason;
  }

  #evict(checkpoint: LiveCheckpoint, reason: string): void {
    if (checkpoint.gone !== undefined) return;
    checkpoint.gone = reason;
    this.#drop(checkpoint.snapshot);
  }
}
