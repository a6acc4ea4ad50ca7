/** Watches over the servers that something was passed on to: one that has gone, or stands still, ends what waits for it. */

interface Watched extends Disposable {
  /** Aborted when the server is no longer there. */
  readonly gone: AbortSignal;
}

export interface Other {
  readonly id: string;
  readonly url: string;
}

interface VigilOptions {
  /** Whether it holds the lock of its name. A process that was stopped may keep that for long. */
  readonly isThere: (id: string) => Promise<boolean>;
  /** Whether it answers a request, whatever else it does. */
  readonly answers: (other: Other, signal: AbortSignal) => Promise<boolean>;
}

interface Watch {
  readonly other: Other;
  readonly gone: AbortController;
  users: number;
  /** When it has answered last, and whether it is being asked. */
  answeredAt: number;
  asking: boolean;
}

const LOOK_MS = 1000;
/** How long after its last answer it is asked again, and how long all in all it may say nothing. */
const ASK_AFTER_MS = 10_000;
const LONGEST_SILENCE_MS = 30_000;

export class Vigil implements Disposable {
  readonly #options: VigilOptions;
  readonly #watches = new Map<string, Watch>();
  #timer: NodeJS.Timeout | undefined;

  constructor(options: VigilOptions) {
    this.#options = options;
  }

  /** Until it is disposed of, which may be done again. */
  watch(other: Other): Watched {
    const { id } = other;
    const fresh = { other, gone: new AbortController(), users: 0, answeredAt: performance.now(), asking: false };
    const watch: Watch = this.#watches.get(id) ?? fresh;
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
    const silentMs = performance.now() - watch.answeredAt;
    if (silentMs >= LONGEST_SILENCE_MS) {
      return this.#giveUp(id, watch, `it has not answered for ${LONGEST_SILENCE_MS / 1000} s`);
    }
    if (silentMs >= ASK_AFTER_MS && !watch.asking) void this.#ask(watch);
    // Storage that is away says nothing of others.
    if (await this.#options.isThere(id).catch(() => true)) return;
    this.#giveUp(id, watch, 'it is no longer there');
  }

  async #ask(watch: Watch): Promise<void> {
    watch.asking = true;
    const deadline = AbortSignal.timeout(ASK_AFTER_MS);
    const answered = await this.#options.answers(watch.other, deadline).catch(() => false); // as if it had said nothing
    watch.asking = false;
    if (answered) watch.answeredAt = performance.now();
  }

  #giveUp(id: string, watch: Watch, why: string): void {
    if (this.#watches.get(id) === watch) this.#watches.delete(id);
    watch.gone.abort(new Error(why));
  }
}
