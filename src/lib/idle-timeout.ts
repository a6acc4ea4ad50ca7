/** Calls back once something has not been used for some time. Does not keep the process alive. */

export class IdleTimeout {
  readonly #ms: number;
  readonly #onIdle: () => void;
  #timer: NodeJS.Timeout | undefined;

  /** `ms`: 0 means never. */
  constructor(ms: number, onIdle: () => void) {
    this.#ms = ms;
    this.#onIdle = onIdle;
  }

  /** The time starts now, or starts again. */
  restart(): void {
    this.stop();
    if (this.#ms > 0) this.#timer = setTimeout(this.#onIdle, this.#ms).unref();
  }

  /** In use, or closed. */
  stop(): void {
    clearTimeout(this.#timer);
  }
}
