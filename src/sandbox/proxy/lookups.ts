/**
 * Looks names up, a few at a time. The system has few threads for it, for all sessions together, and one stays taken until
 * there is an answer: whoever asks for names that nobody answers for waits behind them alone.
 */

/** All addresses of a name. */
export type Resolve = (name: string) => Promise<readonly string[]>;

export interface LookupLimits {
  /** At a time, also of those that nobody waits for any more. */
  readonly lookups: number;
  /** How many may wait for others. */
  readonly waiting: number;
  /** From the question on. */
  readonly resolveMs: number;
}

export class Lookups {
  readonly #resolve: Resolve;
  readonly #limits: LookupLimits;
  readonly #waiting = new Set<(hasPlace: boolean) => void>();
  #underWay = 0;

  constructor(resolve: Resolve, limits: LookupLimits) {
    this.#resolve = resolve;
    this.#limits = limits;
  }

  /** Nothing where there is no answer, or a late one; undefined where too many others are under way. */
  async find(name: string): Promise<readonly string[] | undefined> {
    const late = Promise.withResolvers<void>();
    const timer = setTimeout(late.resolve, this.#limits.resolveMs).unref();
    try {
      if (!(await this.#place(late.promise))) return undefined;
      return (await Promise.race([this.#look(name), late.promise])) ?? [];
    } finally {
      clearTimeout(timer);
    }
  }

  async #place(late: Promise<void>): Promise<boolean> {
    const { lookups, waiting } = this.#limits;
    if (this.#underWay < lookups) {
      this.#underWay++;
      return true;
    }
    if (this.#waiting.size >= waiting) return false;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    this.#waiting.add(resolve);
    void late.then(() => this.#waiting.delete(resolve) && resolve(false));
    return await promise;
  }

  async #look(name: string): Promise<readonly string[]> {
    try {
      return await this.#resolve(name);
    } catch {
      return []; // there is no such name, as far as anybody here knows
    } finally {
      this.#leave();
    }
  }

  /** Whoever has waited longest takes the place over. */
  #leave(): void {
    const [next] = this.#waiting;
    if (!next) {
      this.#underWay--;
      return;
    }
    this.#waiting.delete(next);
    next(true);
  }
}
