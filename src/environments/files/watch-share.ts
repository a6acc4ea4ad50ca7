/**
 * What all watches of the server have together: the folders that may be watched at a time, and one queue in the system.
 *
 * That queue drops events, for all watches, when it is full, and nobody is told. Half of what it holds, all at once, is
 * taken for a sign that it was: every watch then looks anew.
 */

const MOST_FOLDERS = 20_000;
/** Of one user: it takes several to leave none for another. */
const MOST_OF_ONE = 5000;
/** The system keeps 16,384 by default. */
const MOST_AT_ONCE = 8192;

export class WatchShare {
  readonly #listeners = new Set<() => void>();
  readonly #ofEach = new Map<string, number>();
  #folders = 0;
  #atOnce = 0;

  /** False where there are as many as may be. */
  takeFolder(whose: string): boolean {
    const own = this.#ofEach.get(whose) ?? 0;
    if (this.#folders >= MOST_FOLDERS || own >= MOST_OF_ONE) return false;
    this.#folders++;
    this.#ofEach.set(whose, own + 1);
    return true;
  }

  giveFolder(whose: string): void {
    const others = (this.#ofEach.get(whose) ?? 1) - 1;
    this.#folders--;
    if (others === 0) this.#ofEach.delete(whose);
    else this.#ofEach.set(whose, others);
  }

  /** Called with each event of the system. */
  count(): void {
    // All that the queue holds comes before anything else has its turn.
    if (this.#atOnce === 0) setImmediate(() => this.#over());
    this.#atOnce++;
  }

  /** `lost` is told when events may be missing. Gives what to call when nobody listens any more. */
  listen(lost: () => void): () => void {
    this.#listeners.add(lost);
    return () => this.#listeners.delete(lost);
  }

  #over(): void {
    const burst = this.#atOnce >= MOST_AT_ONCE;
    this.#atOnce = 0;
    if (burst) for (const lost of this.#listeners) lost();
  }
}

/** That of this process: it has one queue, whoever watches. */
export const ownWatches = new WatchShare();
