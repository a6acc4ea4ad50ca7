/** Somebody's wish that the server ends: with a grace for what runs, and then perhaps sooner. */

export class StopWish {
  readonly #asked = Promise.withResolvers<number>();
  #hurry: (() => void) | undefined;

  /** With the grace that the first one gives. */
  get asked(): Promise<number> {
    return this.#asked.promise;
  }

  ask(graceMs: number): void {
    this.#asked.resolve(graceMs);
    if (this.#hurry) setTimeout(this.#hurry, graceMs).unref();
  }

  /** From here on the server ends; `hurry` is called when the grace of a later wish is over. */
  onHurry(hurry: () => void): void {
    this.#hurry = hurry;
  }
}
