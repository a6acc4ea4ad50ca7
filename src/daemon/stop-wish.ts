/** Somebody's wish that the server ends: with a grace for what runs, and then perhaps sooner. */

export class StopWish {
  readonly #asked = Promise.withResolvers<number>();
  #graceMs: number | undefined;
  #hurry: (() => void) | undefined;

  /** With the grace that the first one gives. */
  get asked(): Promise<number> {
    return this.#asked.promise;
  }

  ask(graceMs: number): void {
    this.#asked.resolve(graceMs);
    this.#graceMs = Math.min(graceMs, this.#graceMs ?? graceMs);
    if (graceMs === 0) this.#hurry?.();
  }

  /** Called where the wish after the first is that nothing is waited for. */
  onHurry(hurry: () => void): void {
    this.#hurry = hurry;
    if (this.#graceMs === 0) hurry();
  }
}
