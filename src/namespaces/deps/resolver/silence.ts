/** Breaks off what has not moved for a while. */

export class Silence {
  readonly #ms: number;
  readonly #stop = new AbortController();
  #timer: NodeJS.Timeout | undefined;

  constructor(ms: number) {
    this.#ms = ms;
  }

  get broken(): boolean {
    return this.#stop.signal.aborted;
  }

  begin(): AbortSignal {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#stop.abort(new Error(`nothing came for ${this.#ms} ms`)), this.#ms);
    return this.#stop.signal;
  }

  end(): void {
    clearTimeout(this.#timer);
  }
}
