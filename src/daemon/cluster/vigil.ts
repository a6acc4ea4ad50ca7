/** Watches over the servers that something was passed on to: one that has gone, or stands still, ends what waits for it. */

export interface Watched extends Disposable {
  /** Aborted when the server is no longer there. */
  readonly gone: AbortSignal;
}

interface Watch {
  readonly gone: AbortController;
  users: number;
}

const LOOK_MS = 1000;

export class Vigil implements Disposable {
  readonly #isThere: (id: string) => Promise<boolean>;
  readonly #watches = new Map<string, Watch>();
  #timer: NodeJS.Timeout | undefined;

  constructor(isThere: (id: string) => Promise<boolean>) {
    this.#isThere = isThere;
  }

  /** Until it is disposed of, which may be done again. */
  watch(id: string): Watched {
    const watch = this.#watches.get(id) ?? { gone: new AbortController(), users: 0 };
    this.#watches.set(id, watch);
    watch.users++;
    this.#timer ??= setTimeout(() => void this.#look(), LOOK_MS).unref();
    let watched = true;
    return {
      gone: watch.gone.signal,
      [Symbol.dispose]: () => {
        if (watched && --watch.users === 0 && this.#watches.get(id) === watch) this.#watches.delete(id);
        watched = false;
      },
    };
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.#watches.clear();
  }

  async #look(): Promise<void> {
    await Promise.all([...this.#watches].map(([id, watch]) => this.#lookAt(id, watch)));
    this.#timer = this.#watches.size > 0 ? setTimeout(() => void this.#look(), LOOK_MS).unref() : undefined;
  }

  async #lookAt(id: string, watch: Watch): Promise<void> {
    // Storage that is away says nothing of others.
    if (await this.#isThere(id).catch(() => true)) return;
    if (this.#watches.get(id) === watch) this.#watches.delete(id);
    watch.gone.abort(new Error('it is no longer there'));
  }
}
