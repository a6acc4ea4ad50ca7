/** Whose output is whose: executions by the number that they had in their kernel. Threads may write when theirs is long over. */

/** How many are known. */
const MOST = 10_000;

export class Numbers {
  readonly #executions = new Map<number, string>();

  remember(number: number, execution: string): void {
    this.#executions.set(number, execution);
    const [oldest] = this.#executions.keys();
    if (this.#executions.size > MOST && oldest !== undefined) this.#executions.delete(oldest);
  }

  get(number: number): string | undefined {
    return this.#executions.get(number);
  }

  /** With the kernel its threads have ended: nobody asks for the numbers that it had. */
  clear(): void {
    this.#executions.clear();
  }
}
