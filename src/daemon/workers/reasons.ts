/** By session: why the executor before ended by itself, for the next turn to tell. */

/** Sessions that are never prompted again leave theirs behind. */
const MOST = 1000;

export class Reasons {
  readonly #reasons = new Map<string, string>();

  set(session: string, reason: string): void {
    this.#reasons.set(session, reason);
    const [oldest] = this.#reasons.keys();
    if (this.#reasons.size > MOST && oldest !== undefined) this.#reasons.delete(oldest);
  }

  /** Told once. */
  take(session: string): string | undefined {
    const reason = this.#reasons.get(session);
    this.#reasons.delete(session);
    return reason;
  }
}
